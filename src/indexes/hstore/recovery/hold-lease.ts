import type { Operation } from '../../../verbs/index.ts';
import type { Pair } from '../pair.ts';
import { readState } from '../protocol/pair-state.ts';
import type { Waiting } from '../protocol/waiting.ts';
import { isSame } from '../protocol/word.ts';

/**
 * Does work as the holder of the hash server's lease, so that no client writes meanwhile. First
 * completes what was begun, and forestalls an overtaken server. Undefined without the lease. This
 * client gets it if it is free, if its holder is gone, or yields and was seen to stand still. As
 * the hash server it has the lease already.
 */
export function* tryHolding<T>(
  pair: Pair,
  work: () => Operation<T>,
  waiting?: Waiting,
): Operation<{ value: T } | undefined> {
  const { hashLease, hashServer } = pair;
  const held = yield* hashLease.holder();
  const isOwn = hashLease.isServer(held);
  if (isOwn) {
    // This client has the lease already. Its operations use it one at a time.
    if (pair.works) return undefined;
    pair.works = true;
  } else {
    if (!(yield* hashLease.take(waiting?.seen(held) ?? held))) return undefined;
    pair.holds = true;
  }
  try {
    yield* hashServer.forestall();
    return { value: yield* work() };
  } finally {
    if (isOwn) pair.works = false;
    else pair.holds = false;
    // If this client has stopped being the server meanwhile, it left the lease to this operation.
    if (!isOwn || !hashLease.serves) yield* hashLease.release();
  }
}

/** As `tryHolding`; waits for the holder of the lease. */
export function* holding<T>(pair: Pair, what: string, work: () => Operation<T>): Operation<T> {
  const attempt = (_: unknown, waiting: Waiting) => tryHolding(pair, work, waiting);
  return (yield* pair.waitFor('hash', what, attempt)).value;
}

/**
 * Work in two parts. During the first, other clients may overtake this one if it is stopped; then
 * the second is left out. In the second, `isUnchanged` returns whether no turn has been decided
 * since the first began. After that no server can decide a turn from what it read before. A server
 * process does both parts under its own lease.
 */
export function* inTwoParts(
  pair: Pair,
  what: string,
  first: () => Operation<void>,
  second: (isUnchanged: () => Operation<boolean>) => Operation<void>,
): Operation<void> {
  const { hashLease, hashServer } = pair;
  const isServer = hashLease.isServer(yield* hashLease.holder());
  let isKept = isServer;
  const parts = function* (): Operation<void> {
    const before = yield* hashServer.recover();
    yield* first();
    if (!isServer) isKept = yield* hashLease.keep();
    if (!isKept) return;
    yield* second(() => hashServer.forestallAfter(before));
  };
  if (isServer) return yield* holding(pair, what, parts);
  yield* takingTurns(pair, what);
  pair.holds = true;
  try {
    yield* parts();
  } finally {
    pair.holds = false;
    if (isKept) yield* hashLease.release();
    else yield* hashLease.releaseTurns();
  }
}

function* takingTurns(pair: Pair, what: string): Operation<void> {
  yield* pair.waitFor('hash', what, function* ({ holder }, waiting) {
    return (yield* pair.hashLease.takeForTurns(waiting.seen(holder))) || undefined;
  });
}

/**
 * Reads something while no client writes, as the holder of a lease for turns, so that others can
 * overtake this client if it is stopped. Undefined if they may have, because a turn was decided
 * since. The work must beat, so that others see its progress.
 */
export function* readingAlone<T>(
  pair: Pair,
  what: string,
  work: () => Operation<T>,
): Operation<T | undefined> {
  const { hashLease, hashServer } = pair;
  yield* takingTurns(pair, what);
  try {
    const before = yield* hashServer.recover();
    const value = yield* work();
    return isSame(before, (yield* readState(pair)).turn) ? value : undefined;
  } finally {
    yield* hashLease.releaseTurns();
  }
}
