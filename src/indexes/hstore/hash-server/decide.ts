import type { Operation } from '../../../verbs/index.ts';
import { ALWAYS, INSERTED, REFUSED, REPLACED } from '../../contract.ts';
import { refuses as refusesKey } from '../../substrates/claims/slot-operations.ts';
import {
  type HashReply,
  headerOf,
  IF_SLOT,
  isRemoval,
  OUT_OF_MEMORY,
} from '../protocol/hash-messages.ts';
import { LOG_DELETE, LOG_INSERT, LOG_UPDATE } from '../protocol/log.ts';
import { type NamedSlot, signatureOf, slotWord, vacated } from '../protocol/slot.ts';
import type { Decision } from '../protocol/turn.ts';
import type { KeyLookup } from './key-lookup.ts';
import type { PostedRequest } from './posted-request.ts';

/**
 * Decides a request, given the slot that has its key, the version of that record, and the sequence
 * that a change gets; undefined when another server has been at work meanwhile.
 */
export function* decide(
  lookup: KeyLookup,
  posted: PostedRequest,
  match: NamedSlot | undefined,
  version: number,
  sequence: number,
): Operation<Decision | undefined> {
  const { row, number, request } = posted;
  if (refuses(posted, match, version)) {
    return noChange(posted, REFUSED, posted.isExpired ? undefined : match, version);
  }
  const record = slotWord(request.block, request.units, signatureOf(request.h2));
  if (match === undefined) {
    const slot = yield* lookup.emptySlot(posted);
    if (slot === 'full') return noChange(posted, OUT_OF_MEMORY, match, version);
    if (slot === 'overtaken') return undefined;
    const { low, high } = record;
    const reply = replyOf(INSERTED, match, request.firstVersion, sequence);
    return { row, number, reply, event: LOG_INSERT, slot, low, high, header: [] };
  }
  const { slot } = match;
  if (isRemoval(request.operation)) {
    const reply = replyOf(REPLACED, match, version, sequence);
    const { low, high } = vacated(sequence);
    return { row, number, reply, event: LOG_DELETE, slot, low, high, header: [] };
  }
  const { low, high } = record;
  // The version of a record that replaces another is known only now: no client has read its header.
  const reply = replyOf(REPLACED, match, (version + 1) >>> 0, sequence);
  const header = headerOf(request, reply.version);
  return { row, number, reply, event: LOG_UPDATE, slot, low, high, header };
}

function noChange(
  { row, number }: PostedRequest,
  outcome: HashReply['outcome'],
  match: NamedSlot | undefined,
  version: number,
): Decision {
  const reply = replyOf(outcome, match, version, 0);
  return { row, number, reply, event: 0, slot: 0, low: 0, high: 0, header: [] };
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
function refuses(
  { request, isExpired }: PostedRequest,
  match: NamedSlot | undefined,
  version: number,
): boolean {
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
