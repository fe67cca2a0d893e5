import type { Operation } from '../../verbs/index.ts';
import { INSERTED, type Outcome, REFUSED, REPLACED } from '../contract.ts';
import { refuses, type SlotProtocol, writeSlot } from './claims/slot-operations.ts';
import type { PlannedWrite, SharingRequest } from './delegation.ts';
import type { Request } from './request.ts';

/** In place of a write's number: the record found in the table, or none. */
const IN_TABLE = -1;
const ABSENT = -2;
const NO_CARRIER = -1;

/** The results of writes that take effect together, in order. */
interface Combination {
  outcomes: Outcome[];
  /** By write: whose record it met. A write of the group, IN_TABLE or ABSENT. */
  met: number[];
  /** By write: the key's version after it. */
  versions: number[];
  /** The last write that was not refused; its record becomes the key's. Or NO_CARRIER. */
  carrier: number;
}

/**
 * Write combining (section 3.2): one CAS performs all writes of one key that wait for each other in
 * the local lock table. All were called before it and none has returned, so they linearize at that
 * CAS, in the order of the group. Each gets the outcome, the version and the old record that it
 * would have got alone. Only the last record is written to the pool.
 *
 * Which write is the last can depend on the table. The leader guesses, so that the WRITE goes with
 * the first READ as usual; a wrong guess costs another attempt.
 */
export function* writeTogether<R extends SharingRequest<R>>(
  protocol: SlotProtocol<R>,
  group: readonly PlannedWrite<R>[],
  otherCarrier: (request: R, attempt: number) => Operation<void>,
): Operation<void> {
  if (group.length === 1) {
    const [write] = group;
    const { request, condition, expected } = write;
    write.outcome = yield* writeSlot(protocol, request, condition, expected);
    return;
  }
  const numbers = group.map(({ request }) => request.record.firstVersion);
  const { records } = protocol;
  let carrier = guessCarrier(group, numbers);
  try {
    for (let attempt = 1; ; attempt++) {
      const { request } = group[carrier];
      if (request.record.block === 0 && !records.take(request)) yield* records.allocate(request);
      const isThere = yield* protocol.locate(request);
      const present = isThere && !records.isExpired(request);
      const isPast = (one: Request) => records.isPast(one);
      const combined = combine(group, numbers, present, request.found.version, isPast);
      if (combined.carrier !== NO_CARRIER && combined.carrier !== carrier) {
        records.discard(request);
        carrier = combined.carrier;
        yield* otherCarrier(request, attempt);
        continue;
      }
      const isDone =
        combined.carrier === NO_CARRIER ||
        (yield* perform(protocol, request, isThere, combined, attempt));
      if (!isDone) continue;
      deliver(group, combined, carrier);
      return;
    }
  } finally {
    records.discard(group[carrier].request);
    group.forEach(({ request }, i) => {
      request.record.firstVersion = numbers[i];
    });
  }
}

/** Performs the carrier's CAS. Its record gets the version that the writes before it lead to. */
function* perform<R extends Request>(
  { insert, replace }: SlotProtocol<R>,
  request: R,
  isThere: boolean,
  { versions, carrier }: Combination,
  attempt: number,
): Operation<boolean> {
  const version = versions[carrier];
  if (isThere) request.found.version = (version - 1) >>> 0;
  else request.record.firstVersion = version;
  const isDone = yield* isThere ? replace(request, attempt) : insert(request, attempt);
  if (!isDone) return false;
  request.displaced = isThere;
  request.record.forgetBlock();
  return true;
}

/**
 * The outcome of each write of the group, given the key's state before it. If a record expired
 * while its write waited, later writes do not find it.
 */
function combine(
  group: readonly PlannedWrite<Request>[],
  numbers: readonly number[],
  present: boolean,
  version: number,
  isPast: (request: Request) => boolean,
): Combination {
  const combined: Combination = { outcomes: [], met: [], versions: [], carrier: NO_CARRIER };
  let owner = present ? IN_TABLE : ABSENT;
  let current = version;
  group.forEach(({ request, condition, expected }, i) => {
    combined.met.push(owner);
    const refused = refuses(condition, expected, owner !== ABSENT, current);
    if (!refused) current = owner === ABSENT ? numbers[i] : (current + 1) >>> 0;
    const done = owner === ABSENT ? INSERTED : REPLACED;
    combined.outcomes.push(refused ? REFUSED : done);
    combined.versions.push(current);
    if (refused) return;
    owner = isPast(request) ? ABSENT : i;
    combined.carrier = i;
  });
  return combined;
}

/**
 * Guesses that the key is present, with a version that no caller expects; else that it is absent.
 */
function guessCarrier(group: readonly PlannedWrite<Request>[], numbers: readonly number[]): number {
  const ifPresent = combine(group, numbers, true, Number.NaN, () => false).carrier;
  if (ifPresent !== NO_CARRIER) return ifPresent;
  return Math.max(0, combine(group, numbers, false, 0, () => false).carrier);
}

/** Gives each caller its outcome, its version and the record that it met. */
function deliver<R extends SharingRequest<R>>(
  group: readonly PlannedWrite<R>[],
  { outcomes, met, versions }: Combination,
  carrier: number,
): void {
  // Two passes: the carrier's found record is the table's until the second one.
  group.forEach((write, i) => {
    write.outcome = outcomes[i];
    if (outcomes[i] !== REFUSED) write.request.reseal(versions[i]);
    if (met[i] === IN_TABLE && i !== carrier) write.request.takeFound(group[carrier].request);
    if (met[i] === ABSENT) write.request.found.at = -1;
  });
  group.forEach(({ request }, i) => {
    if (met[i] >= 0) request.takeOutgoing(group[met[i]].request);
  });
}
