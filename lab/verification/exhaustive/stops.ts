import type { Canary } from '../canary.ts';
import type { Scope } from './scope.ts';
import { isPosting } from './scope-client.ts';
import { type Crash, clientOf, ScopeModel } from './scope-model.ts';

/** What the search has covered. */
export interface Stops {
  executions: number;
  /** How many of them had a crash. */
  crashed: number;
  failure: string | undefined;
}

export interface StopOptions {
  /**
   * Also lets every client die after each of its verbs that changes something. With 'unstopped' no
   * client stops in these executions: each is the last to begin in turn.
   */
  crashes?: boolean | 'unstopped';
  canary?: Canary;
  /** The first client dies after so many changes, before others begin; no other executions run. */
  diesFirst?: { from: number; to: number };
  /** The only client that stops, and only between two batches. */
  only?: number;
}

/**
 * Searches a scope that is too long for `searchScope`. In each execution one client stops once,
 * after any of its steps, until the others have finished. With `crashes`, a client also dies in
 * other executions, the same one or another, after any of its changes. In these the stop is between
 * two batches.
 */
export function searchStops(
  scope: Scope,
  { crashes = false, canary, diesFirst, only }: StopOptions = {},
): Stops {
  const stops: Stops = { executions: 0, crashed: 0, failure: undefined };
  const [from, to] = diesFirst ? [diesFirst.from, diesFirst.to] : [1, Number.POSITIVE_INFINITY];
  const first = diesFirst !== undefined;
  const pointsMax = crashes === 'unstopped' ? 1 : Number.POSITIVE_INFINITY;
  if (!first) explore(scope, stops, { canary, only });
  const mortal = first ? 1 : crashes ? scope.clients.length : 0;
  for (let client = 0; client < mortal; client++) {
    for (let after = from; stops.failure === undefined && after <= to; after++) {
      const crash = { client, after, first };
      // It has nothing left to change: it died in no execution.
      if (!explore(scope, stops, { canary, only, crash, pointsMax })) break;
    }
  }
  return stops;
}

interface Exploration {
  canary?: Canary | undefined;
  only?: number | undefined;
  crash?: Crash;
  /** Stops to try per client, counted from its first step. */
  pointsMax?: number;
}

/** Whether the crash happened in some execution. */
function explore(
  scope: Scope,
  stops: Stops,
  { canary, only, crash, pointsMax = Number.POSITIVE_INFINITY }: Exploration,
): boolean {
  const model = new ScopeModel(scope, { crash, canary });
  const byBatch = crash !== undefined || only !== undefined;
  for (let client = 0; client < scope.clients.length; client++) {
    if (client !== (only ?? client)) continue;
    for (let point = 0; point < pointsMax; point++) {
      if (!execute(model, client, point, byBatch)) break;
      stops.executions++;
      const text = model.cut ? 'an execution does not end' : model.verdict();
      if (text === undefined) continue;
      const died = crash ? `, client ${crash.client} dies after ${crash.after} changes` : '';
      stops.failure = `client ${client} stops at ${point}${died}\n${text}`;
      return false;
    }
  }
  stops.crashed += model.crashes;
  return model.crashes > 0;
}

/**
 * One execution, in which a client stops before its step `point`, counted from 0; `byBatch`: before
 * it posts batch `point`. Whether it has had such a step.
 */
function execute(model: ScopeModel, client: number, point: number, byBatch: boolean): boolean {
  model.begin();
  let passed = 0;
  for (let enabled = model.enabled(); enabled.length > 0; enabled = model.enabled()) {
    const own = enabled.find((id) => clientOf(id) === client);
    const other = enabled.find((id) => clientOf(id) !== client);
    const counts = own !== undefined && (!byBatch || isPosting(own));
    const goesOn = passed < point || (passed === point && !counts);
    const id = (goesOn ? (own ?? other) : (other ?? own)) as number;
    if (id === own && counts) passed++;
    model.perform(id);
  }
  return passed > point;
}
