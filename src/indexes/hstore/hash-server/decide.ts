import { invariant } from '../../../errors.ts';
import type { Address, Operation } from '../../../verbs/index.ts';
import { ALWAYS, INSERTED, REFUSED, REPLACED } from '../../contract.ts';
import { refuses as refusesKey } from '../../substrates/claims/slot-operations.ts';
import {
  type HashReply,
  type HashRequest,
  headerOf,
  IF_SLOT,
  isRemoval,
  OUT_OF_MEMORY,
} from '../protocol/hash-messages.ts';
import { LOG_DELETE, LOG_INSERT, LOG_UPDATE } from '../protocol/log.ts';
import { type NamedSlot, signatureOf, slotWord, vacated } from '../protocol/slot.ts';
import type { Decision } from '../protocol/turn.ts';
import type { Word } from '../protocol/word.ts';
import type { KeyLookup, PostedRequest } from './key-lookup.ts';

const NO_WORD: Word = { low: 0, high: 0 };
const NO_HEADER: readonly number[] = [];

/**
 * Decides a request, given what its first one says of the slot that has its key, and the sequence
 * that a change gets; undefined when another server has been at work meanwhile.
 */
export function* decide(
  lookup: KeyLookup,
  posted: PostedRequest,
  sequence: number,
): Operation<Decision | undefined> {
  const { request, first } = posted;
  const { match, version } = first;
  if (refuses(request, first)) {
    return decisionOf(posted, replyOf(REFUSED, first.isExpired ? undefined : match, version, 0));
  }
  const record = slotWord(request.block, request.units, signatureOf(request.h2));
  // A slot without a length is empty.
  const isNamed = isRemoval(request.operation) || (request.units > 0 && request.block > 0);
  invariant(isNamed, 'a request is to store a record of no length');
  if (match === undefined) {
    const slot = yield* lookup.emptySlot(first);
    if (slot === 'full') return decisionOf(posted, replyOf(OUT_OF_MEMORY, match, version, 0));
    if (slot === 'overtaken') return undefined;
    const reply = replyOf(INSERTED, match, request.firstVersion, sequence);
    return decisionOf(posted, reply, LOG_INSERT, slot, record);
  }
  if (isRemoval(request.operation)) {
    const reply = replyOf(REPLACED, match, version, sequence);
    return decisionOf(posted, reply, LOG_DELETE, match.slot, vacated(sequence));
  }
  // The version of a record that replaces another is known only now: no client has read its header.
  const reply = replyOf(REPLACED, match, (version + 1) >>> 0, sequence);
  const header = headerOf(request, reply.version);
  return decisionOf(posted, reply, LOG_UPDATE, match.slot, record, header);
}

/** Without an event nothing is changed. */
function decisionOf(
  { row, number }: PostedRequest,
  reply: HashReply,
  event = 0,
  slot: Address = 0,
  { low, high }: Word = NO_WORD,
  header: readonly number[] = NO_HEADER,
): Decision {
  return { row, number, reply, event, slot, low, high, header };
}

function replyOf(
  outcome: HashReply['outcome'],
  match: NamedSlot | undefined,
  version: number,
  sequence: number,
): HashReply {
  return { outcome, version, oldLow: match?.low ?? 0, oldHigh: match?.high ?? 0, sequence };
}

/**
 * An expired record counts as absent, but for a client that names it, which has judged itself, and
 * for a removal: its client tells that there was nothing.
 */
function refuses(request: HashRequest, { match, version, isExpired }: PostedRequest): boolean {
  const { operation, condition, expectedVersion, slotLow, slotHigh } = request;
  if (condition === IF_SLOT) {
    const isExpected = match?.low === slotLow && match.high === slotHigh;
    return !isExpected || version !== expectedVersion;
  }
  const isThere = match !== undefined;
  if (isRemoval(operation) && condition === ALWAYS) return !isThere;
  const present = isThere && (isRemoval(operation) || !isExpired);
  return refusesKey(condition, expectedVersion, present, version);
}
