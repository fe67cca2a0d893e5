import type { Operation } from '../../verbs/index.ts';
import type { Pair } from './pair.ts';
import { readState, readTurn } from './state.ts';
import { isSame } from './turn-word.ts';
import { Waiting } from './waiting.ts';

/**
 * Does something as the holder of the hash server's lease, under which nobody writes, if it can be
 * had now: nobody holds it, or the holder is gone, or it is this process's own as the hash server,
 * or it yields and was seen to stand still. What was begun is completed first, and who was
 * overtaken is forestalled. Undefined when somebody else has it.
 */
export function* tryHolding<T>(
  pair: Pair,
  work: () => Operation<T>,
  waiting?: Waiting,
): Operation<{ value: T } | undefined> {
  const { hashLease, hashServer } = pair;
  const held = yield* hashLease.holder();
  const holder = waiting?.seen(held) ?? held;
  if (holder.serves && holder.client === hashLease.own) {
    // The lease is this client's whichever of its operations asks: one at a time.
    if (pair.works) return undefined;
    try {
      pair.works = true;
      yield* hashServer.forestall();
      return { value: yield* work() };
    } finally {
      pair.works = false;
      // The server gave up meanwhile.
      if (!hashLease.serves) yield* hashLease.release();
    }
  }
  if (!(yield* hashLease.take(holder))) return undefined;
  try {
    pair.holds = true;
    yield* hashServer.forestall();
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
    const held = yield* tryHolding(pair, work, waiting);
    if (held) return held.value;
    const { holder, progress } = yield* readState(pair);
    yield* waiting.turn(holder, progress);
  }
}

/**
 * Completes what was begun, if whoever has begun it does not. That needs no lease: who is stopped
 * here holds up nobody.
 */
export function* tryCompleting(pair: Pair, waiting?: Waiting): Operation<boolean> {
  const { hashLease, hashServer } = pair;
  const held = yield* hashLease.holder();
  const isOwn = held.serves && held.client === hashLease.own;
  if (!isOwn && !(yield* hashLease.isToBeHad(waiting?.seen(held) ?? held))) return false;
  yield* hashServer.recover();
  return true;
}

/**
 * Reads something while nobody writes, as the holder of a lease for turns: who is stopped at it is
 * overtaken. Undefined when that has happened, or might have: any turn since is one too many. The
 * work beats, so that it is not taken for standing still.
 */
export function* readingAlone<T>(
  pair: Pair,
  what: string,
  work: () => Operation<T>,
): Operation<T | undefined> {
  const { hashLease, hashServer } = pair;
  const waiting = new Waiting(hashLease, pair.patience, what);
  for (;;) {
    const { holder, progress } = yield* readState(pair);
    if (yield* hashLease.takeForTurns(waiting.seen(holder))) break;
    yield* waiting.turn(holder, progress);
  }
  try {
    const before = yield* hashServer.recover();
    const value = yield* work();
    return isSame(before, yield* readTurn(pair)) ? value : undefined;
  } finally {
    yield* hashLease.releaseTurns();
  }
}
