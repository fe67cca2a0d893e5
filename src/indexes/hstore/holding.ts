import type { Operation } from '../../verbs/index.ts';
import type { Pair } from './pair.ts';
import { readState } from './state.ts';
import { Waiting } from './waiting.ts';

/**
 * Does something as the holder of the hash server's lease, under which nobody writes, if it can be
 * had now: nobody holds it, or the holder is gone, or it is this process's own as the hash server.
 * What a dead holder had begun is completed first. Undefined when somebody else has it.
 */
export function* tryHolding<T>(
  pair: Pair,
  work: () => Operation<T>,
): Operation<{ value: T } | undefined> {
  const { hashLease, hashServer } = pair;
  const holder = yield* hashLease.holder();
  if (holder.serves && holder.client === hashLease.own) {
    yield* hashServer.recover();
    return { value: yield* work() };
  }
  if (!(yield* hashLease.take(holder))) return undefined;
  try {
    pair.holds = true;
    yield* hashServer.recover();
    return { value: yield* work() };
  } finally {
    pair.holds = false;
    yield* hashLease.release();
  }
}

/** As `tryHolding`; waits for whoever has the lease. */
export function* holding<T>(pair: Pair, what: string, work: () => Operation<T>): Operation<T> {
  const waiting = new Waiting(pair.hashLease, pair.patience, what);
  for (;;) {
    const held = yield* tryHolding(pair, work);
    if (held) return held.value;
    const { holder, progress } = yield* readState(pair);
    yield* waiting.turn(holder, progress);
  }
}
