import type { Canary } from '../canary.ts';
import { Explorer } from './explorer.ts';
import type { Scope } from './scope.ts';
import { type Crash, ScopeModel } from './scope-model.ts';

/** What the search of a scope has covered so far. */
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

interface ScopeFailure {
  text: string;
  schedule: number[];
  crash: Crash | undefined;
}

export interface SearchOptions {
  /** Also lets every client die after each of its verbs that changes something. */
  crashes?: boolean;
  canary?: Canary;
}

/**
 * Runs every schedule of a scope, then every schedule with each crash of one client. Yields after
 * every execution; the coverage is one object that grows.
 */
export function* searchScope(
  scope: Scope,
  { crashes = true, canary }: SearchOptions = {},
): Generator<Coverage, Coverage> {
  const coverage = nothing();
  yield* explore(scope, coverage, { canary });
  for (let client = 0; crashes && client < scope.clients.length; client++) {
    for (let after = 1; coverage.failure === undefined; after++) {
      const crashed = yield* explore(scope, coverage, { canary, crash: { client, after } });
      // It has nothing left to change: it died in no execution.
      if (crashed === 0) break;
    }
  }
  coverage.exhausted = coverage.failure === undefined;
  return coverage;
}

function nothing(): Coverage {
  return { schedules: 0, crashed: 0, cut: 0, steps: 0, exhausted: false, failure: undefined };
}

/** Returns in how many executions the crash happened. */
function* explore(
  scope: Scope,
  coverage: Coverage,
  { crash, canary }: { crash?: Crash; canary?: Canary },
): Generator<Coverage, number> {
  const model = new ScopeModel(scope, { crash, canary });
  const before = { ...coverage };
  for (const { schedules, cut, steps, failure } of new Explorer(model).run()) {
    coverage.schedules = before.schedules + schedules;
    coverage.cut = before.cut + cut;
    coverage.steps = before.steps + steps;
    coverage.crashed = before.crashed + model.crashes;
    if (failure) coverage.failure = { ...failure, crash };
    yield coverage;
  }
  return model.crashes;
}
