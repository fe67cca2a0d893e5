import type { Operation } from '../../../verbs/index.ts';
import {
  ALWAYS,
  IF_ABSENT,
  IF_PRESENT,
  IF_VERSION,
  INSERTED,
  REFUSED,
  REPLACED,
} from '../../contract.ts';
import {
  type HashReply,
  type HashRequest,
  IF_SLOT,
  isRemoval,
  OUT_OF_MEMORY,
} from '../protocol/hash-messages.ts';
import { LOG_DELETE, LOG_INSERT, LOG_UPDATE } from '../protocol/log.ts';
import { type NamedSlot, signatureOf, slotWord } from '../protocol/slot.ts';
import type { BucketChains } from './bucket-chains.ts';
import type { Answer, PostedRequest } from './posted-request.ts';

/**
 * Decides a request, given the slot that has its key and the version of that record; undefined when
 * another server has been at work meanwhile.
 */
export function* decide(
  chains: BucketChains,
  posted: PostedRequest,
  match: NamedSlot | undefined,
  version: number,
): Operation<Answer | undefined> {
  const { request } = posted;
  const reply = (outcome: HashReply['outcome'], newVersion: number): HashReply => {
    const [oldLow, oldHigh] = [match?.low ?? 0, match?.high ?? 0];
    return { outcome, version: newVersion, oldLow, oldHigh, sequence: 0 };
  };
  if (refuses(request, match, version)) {
    return { posted, reply: reply(REFUSED, version), change: undefined };
  }
  const word = slotWord(request.block, request.units, signatureOf(request.h2));
  if (match === undefined) {
    const slot = yield* chains.emptySlot(posted);
    if (slot === 'full') {
      return { posted, reply: reply(OUT_OF_MEMORY, version), change: undefined };
    }
    if (slot === 'overtaken') return undefined;
    const change = { event: LOG_INSERT, slot, low: word.low, high: word.high };
    return { posted, reply: reply(INSERTED, request.firstVersion), change };
  }
  const { slot } = match;
  if (isRemoval(request.operation)) {
    const change = { event: LOG_DELETE, slot, low: 0, high: 0 };
    return { posted, reply: reply(REPLACED, version), change };
  }
  const change = { event: LOG_UPDATE, slot, low: word.low, high: word.high };
  return { posted, reply: reply(REPLACED, (version + 1) >>> 0), change };
}

function refuses(
  { operation, condition, expectedVersion, slotLow, slotHigh }: HashRequest,
  match: NamedSlot | undefined,
  version: number,
): boolean {
  if (isRemoval(operation) && condition === ALWAYS) return match === undefined;
  if (condition === IF_ABSENT) return match !== undefined;
  if (condition === IF_PRESENT) return match === undefined;
  if (condition !== IF_VERSION && condition !== IF_SLOT) return false;
  const isExpected = match !== undefined && version === expectedVersion;
  if (condition === IF_VERSION) return !isExpected;
  return !isExpected || match.low !== slotLow || match.high !== slotHigh;
}
