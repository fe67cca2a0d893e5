import { StepwellError } from '../../errors.ts';
import type { Address, Operation } from '../../verbs/index.ts';
import {
  ALWAYS,
  IF_ABSENT,
  IF_PRESENT,
  IF_VERSION,
  INSERTED,
  REFUSED,
  REPLACED,
} from '../contract.ts';
import type { BucketChains } from './bucket-chains.ts';
import type { Answer } from './commit.ts';
import { LOG_DELETE, LOG_INSERT, LOG_UPDATE } from './log.ts';
import { type HashReply, type HashRequest, IF_SLOT, OP_REMOVE, OUT_OF_MEMORY } from './messages.ts';
import type { Candidate, Posted } from './posted.ts';
import { signatureOf, slotHigh, slotLow } from './slot.ts';

/**
 * What a request comes to, given the slot that has its key and the version of that record;
 * undefined when another server has been at work meanwhile.
 */
export function* decide(
  chains: BucketChains,
  posted: Posted,
  match: Candidate | undefined,
  version: number,
): Operation<Answer | undefined> {
  const { request } = posted;
  if (refuses(request, match, version)) return refusal(posted, match, version, REFUSED);
  const { block, units, h2 } = request;
  const low = slotLow(block);
  const high = slotHigh(block, units, signatureOf(h2));
  if (match === undefined) {
    const slot = yield* roomFor(chains, posted);
    if (slot === 'full') return refusal(posted, match, version, OUT_OF_MEMORY);
    if (slot === undefined) return undefined;
    const reply = replyOf(INSERTED, request.firstVersion, match);
    return { posted, reply, change: { event: LOG_INSERT, slot, low, high } };
  }
  const { slot } = match;
  if (request.operation === OP_REMOVE) {
    const reply = replyOf(REPLACED, version, match);
    return { posted, reply, change: { event: LOG_DELETE, slot, low: 0, high: 0 } };
  }
  const reply = replyOf(REPLACED, (version + 1) >>> 0, match);
  return { posted, reply, change: { event: LOG_UPDATE, slot, low, high } };
}

function refuses(
  { operation, condition, expectedVersion, slotLow: low, slotHigh: high }: HashRequest,
  match: Candidate | undefined,
  version: number,
): boolean {
  if (operation === OP_REMOVE && condition === ALWAYS) return match === undefined;
  if (condition === IF_ABSENT) return match !== undefined;
  if (condition === IF_PRESENT) return match === undefined;
  if (condition !== IF_VERSION && condition !== IF_SLOT) return false;
  const isExpected = match !== undefined && version === expectedVersion;
  if (condition === IF_VERSION) return !isExpected;
  return !isExpected || match.low !== low || match.high !== high;
}

function* roomFor(chains: BucketChains, posted: Posted): Operation<Address | 'full' | undefined> {
  try {
    return yield* chains.emptySlot(posted);
  } catch (error) {
    if (error instanceof StepwellError && error.code === 'SW_POOL_FULL') return 'full';
    throw error;
  }
}

function refusal(
  posted: Posted,
  match: Candidate | undefined,
  version: number,
  outcome: HashReply['outcome'],
): Answer {
  return { posted, reply: replyOf(outcome, version, match), change: undefined };
}

function replyOf(
  outcome: HashReply['outcome'],
  version: number,
  match: Candidate | undefined,
): HashReply {
  return { outcome, version, oldLow: match?.low ?? 0, oldHigh: match?.high ?? 0, sequence: 0 };
}
