import { invariant } from '../../../errors.ts';
import {
  type Address,
  copyWord,
  highHalf,
  lowHalf,
  type Operation,
  Scratch,
  setWord,
  swapped,
  UNIT_BYTES,
} from '../../../verbs/index.ts';
import { pointerHigh, pointerLow } from '../../substrates/claims/slot-format.ts';
import { SWAP_AT } from '../../substrates/claims/slot-request.ts';
import { lastLinkAt } from '../operations/buckets.ts';
import { LEVEL3_LINK, NODE_BYTES, PLACES } from '../table/geometry.ts';
import type { ShardRequest } from '../table/request.ts';
import { FROZEN, freshHigh, isEmpty, STAMP_MASK } from '../table/slot.ts';
import type { ShardTable } from '../table/table.ts';

export const NODE_UNITS = NODE_BYTES / UNIT_BYTES;
/** Chain nodes are not moved: when a bucket of level 3 is split, both halves share its chain. */
const NODE_VERSION = 0;

/**
 * Adds an empty node to the chain of the key's level 3 bucket, unless another client was faster.
 */
export function* extendChain(table: ShardTable, request: ShardRequest): Operation<void> {
  if (request.nodes.length > 0 && isClosed(request)) return yield* unlinkOwn(table, request);
  const { allocator, catalog } = table;
  const node = yield* allocator.allocate(catalog, NODE_UNITS);
  const { batch, words } = request;
  const at = lastLinkAt(request);
  const isEnd = isEmpty(lowHalf(words, at), highHalf(words, at));
  invariant(isEnd, 'a chain is extended in its midst, which would lose what is behind');
  const image = new Scratch(NODE_BYTES);
  for (let slot = 0; slot < NODE_BYTES; slot += 8) {
    setWord(image, slot, 0, freshHigh(NODE_VERSION));
  }
  copyWord(words, at, SWAP_AT);
  const high = (highHalf(words, at) & STAMP_MASK) | pointerHigh(node);
  setWord(words, SWAP_AT + 8, pointerLow(node), high);
  const link: Address = table.slotAddress(request, at);
  yield batch.clear().write(node, NODE_BYTES, image, 0).cas(link, words, SWAP_AT);
  if (!swapped(words, SWAP_AT)) allocator.sizeClass(catalog, NODE_UNITS).cache.push(node);
}

/** Whether the chain has been given up: nothing is put into it any more. */
function isClosed(request: ShardRequest): boolean {
  return (highHalf(request.words, lastLinkAt(request)) & FROZEN) !== 0;
}

/** Takes a chain that was given up from the key's bucket, for another one to begin there. */
function* unlinkOwn(table: ShardTable, request: ShardRequest): Operation<void> {
  const { batch, words } = request;
  const at = request.at[PLACES - 1] + LEVEL3_LINK;
  copyWord(words, at, SWAP_AT);
  setWord(words, SWAP_AT + 8, 0, highHalf(words, at) & STAMP_MASK);
  yield batch.clear().cas(table.slotAddress(request, at), words, SWAP_AT);
}
