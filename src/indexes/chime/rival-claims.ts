import { type Address, highHalf, lowHalf, type Operation } from '../../verbs/index.ts';
import type { Request } from '../substrates/request.ts';

/**
 * What becomes of two claims of one key. An inserter claims an empty slot by a pending word and
 * reads after that every slot in which the key may be, so of two inserters the later one sees the
 * other's claim. Then
 *   - who meets a committed slot withdraws: the key exists by now;
 *   - who ranks behind the other withdraws, and waits;
 *   - who ranks before it withdraws the other's claim and goes on.
 * Anyone may withdraw anyone's claim by CAS: its owner's commit then fails and it begins again. So
 * nobody ever depends on the other being alive.
 */
export interface ClaimRules<R extends RivalRequest> {
  /** The bit in the high half of a slot that is claimed and not committed. */
  readonly pending: number;
  readonly patience: Patience;
  /** Room for a word in `words`. */
  readonly scratchAt: number;
  slotAddress(request: R, at: number): Address;
  /** The claim with the lower rank goes on; the same rank is the same slot. */
  rank(request: R, at: number): number;
  /** Withdraws another client's claim. False when it was committed or frozen meanwhile. */
  evict(request: R, at: number): Operation<boolean>;
}

export interface RivalRequest extends Request {
  /** The slot that is waited for, in `words`. */
  slotAt: number;
  /** Where slots with the key's fingerprint stand in `words`; their records are `candidateAt`. */
  candidates: ArrayLike<number>;
}

/** How long a claim that stands in the way may stay as it is. */
export interface Patience {
  polls: number;
  /** Between two polls. */
  microseconds: number;
}

const PATIENCE_GROWTH_MAX = 32;

export type Conflict = 'committedElsewhere' | 'pendingElsewhere' | 'lost';

/**
 * Looks at the candidates, whose records have been read. Claims that rank behind the one of
 * `ownRank` are withdrawn; the first that does not is the conflict, and `slotAt` tells which.
 */
export function* findRival<R extends RivalRequest>(
  rules: ClaimRules<R>,
  request: R,
  ownRank: number,
): Operation<Conflict | undefined> {
  const { candidates, candidateAt, words } = request;
  for (let i = 0; i < request.candidateCount; i++) {
    if (!request.matches(candidateAt[i])) continue;
    const other = candidates[i];
    if ((highHalf(words, other) & rules.pending) === 0) return 'committedElsewhere';
    request.slotAt = other;
    const rank = rules.rank(request, other);
    if (rank < ownRank) return 'pendingElsewhere';
    // Another claim of the key stands in the very slot: this one was withdrawn. Were the other
    // evicted for that, two inserters in step could go on evicting each other for ever.
    if (rank === ownRank) return 'lost';
    if (!(yield* rules.evict(request, other))) return 'committedElsewhere';
  }
  return undefined;
}

/**
 * Waits for the fate of the claim that made this client withdraw (`slotAt`); when nothing happens
 * to it for too long, its owner is slow or dead and the claim is withdrawn for it.
 */
export function* outwait<R extends RivalRequest>(
  rules: ClaimRules<R>,
  request: R,
  attempt: number,
): Operation<void> {
  const { batch, words, slotAt } = request;
  const { scratchAt } = rules;
  const { polls, microseconds } = rules.patience;
  const address = rules.slotAddress(request, slotAt);
  // Longer each time: two whose stalls exceed a fixed patience would evict each other for ever.
  const enough = polls * Math.min(attempt, PATIENCE_GROWTH_MAX);
  for (let poll = 0; poll < enough; poll++) {
    yield batch.clear().pause(microseconds, words).read(address, 8, words, scratchAt);
    if (lowHalf(words, scratchAt) !== lowHalf(words, slotAt)) return;
    if (highHalf(words, scratchAt) !== highHalf(words, slotAt)) return;
  }
  yield* rules.evict(request, slotAt);
}
