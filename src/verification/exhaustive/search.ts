import type { Canary } from '../simulation.ts';
import { Explorer } from './explorer.ts';
import type { Scope } from './scope.ts';
import { type Crash, ScopeModel } from './scope-model.ts';

/** What the search of a scope covered so far. */
export interface Coverage {
  /** Complete executions, no two of which are equivalent, and how many of them had a crash. */
  schedules: number;
  crashed: number;
  /** Executions given up because a client began an operation again too often. */
  cut: number;
  steps: number;
  /** Whether every schedule was run. */
  exhausted: boolean;
  failure: ScopeFailure | undefined;
}

export interface ScopeFailure {
  text: string;
  schedule: number[];
  crash: Crash | undefined;
}

export interface SearchOptions {
  /** Also lets every client die after each of its verbs that changes something. */
  crashes?: boolean;
  canary?: Canary;
  /** Asked after every execution; the search ends when it says so. */
  enough?: (coverage: Coverage) => boolean;
}

/** Runs every schedule of a scope, then every schedule with each crash of one client. */
export function searchScope(
  scope: Scope,
  { crashes = true, canary, enough = () => false }: SearchOptions = {},
): Coverage {
  const coverage: Coverage = {
    schedules: 0,
    crashed: 0,
    cut: 0,
    steps: 0,
    exhausted: true,
    failure: undefined,
  };
  const explore = (crash?: Crash): number => {
    const model = new ScopeModel(scope, { crash, canary });
    const before = { ...coverage };
    const { exhausted, failure } = new Explorer(model).run(({ schedules, cut, steps }) => {
      coverage.schedules = before.schedules + schedules;
      coverage.cut = before.cut + cut;
      coverage.steps = before.steps + steps;
      coverage.crashed = before.crashed + model.crashes;
      return enough(coverage);
    });
    coverage.exhausted &&= exhausted;
    if (failure) coverage.failure = { ...failure, crash };
    return model.crashes;
  };
  const goesOn = () => coverage.exhausted && !coverage.failure;
  explore();
  for (let client = 0; crashes && client < scope.clients.length; client++) {
    // Until it has nothing left to change: then it did not die in any execution.
    for (let after = 1; goesOn(); after++) if (explore({ client, after }) === 0) break;
  }
  return coverage;
}
