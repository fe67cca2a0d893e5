import { hasCode, StepwellError } from '../../errors.ts';
import { HEADER_BYTES } from '../../records/layout.ts';
import { Batch, type Operation, Scratch } from '../../verbs/index.ts';
import { descend, refresh } from './descent.ts';
import { SLOTS_AT } from './geometry.ts';
import { childIn, childrenIn, linkIn, separatorIn } from './internal-node.ts';
import { EVERYTHING } from './key-scale.ts';
import { isFull } from './leaf-state.ts';
import { ABSORB, FROZEN, MARKS } from './link.ts';
import {
  isInternal,
  isInUse,
  isTakenUp,
  type Link,
  linkAddress,
  replacementOf,
  swing,
  type Visit,
  visit,
} from './node-io.ts';
import { goneWith } from './plan-node.ts';
import { rebuildLeaf } from './rebuild-leaf.ts';
import { rebuildNode } from './rebuild-node.ts';
import type { ChimeRequest, ChimeTree } from './tree.ts';

/** A key in somebody's memory. */
export interface KeyAt {
  u8: Uint8Array;
  at: number;
  bytes: number;
}

export function keyOf({ outgoing, keyBytes }: ChimeRequest): KeyAt {
  return { u8: outgoing.u8, at: HEADER_BYTES, bytes: keyBytes };
}

/**
 * Puts the request's way through the tree in order, and then remembers it: see `mendWay`. With
 * `room`, the leaf is replaced when the key's neighbourhood has no empty slot.
 */
export function* mend(tree: ChimeTree, request: ChimeRequest, room = false): Operation<void> {
  const replaced = yield* mendWay(tree, keyOf(request), room ? request.home : -1);
  if (replaced === undefined || !remember(tree, request, replaced)) yield* refresh(tree, request);
}

/** A leaf, and the one leaf that was put in its place. */
interface Replaced {
  from: Link;
  to: Link;
}

/** Saves reading the way again, if what is remembered leads to the old leaf. */
function remember(tree: ChimeTree, request: ChimeRequest, { from, to }: Replaced): boolean {
  const parent = descend(tree, request);
  if (parent === undefined || request.leaf === 0) return false;
  const changed = request.leafHigh ^ from.high;
  if (request.leafLow !== from.low || (changed & ~MARKS) !== 0) return false;
  parent.relink(request.child, to.low, to.high, tree.cache.epoch);
  return true;
}

/**
 * Goes down to a key's leaf by READs of this operation alone and finishes whatever others have
 * begun on the way, whether they are slow or dead: replacements that are not linked, nodes that
 * are being replaced, nodes that their parents have to take up. Each round ends with one thing
 * less to do, done by this client or by another. Returns what it put in the leaf's place, if that
 * was the last thing.
 */
export function* mendWay(
  tree: ChimeTree,
  key: KeyAt,
  home: number,
): Operation<Replaced | undefined> {
  const state: MendState = { lean: false, home, replaced: undefined };
  for (let round = 1; ; round++) {
    tree.giveUpAfter(round);
    if (yield* mendOnce(tree, key, state)) return state.replaced;
  }
}

interface MendState {
  /**
   * Whether the pool is too full to put internal nodes in order. Keys are found, and written to,
   * all the same; the way is only longer.
   */
  lean: boolean;
  /** A home whose neighbourhood must get an empty slot, or less than 0. */
  home: number;
  replaced: Replaced | undefined;
}

/** One way down; whether nothing is left to be done. */
function* mendOnce(tree: ChimeTree, key: KeyAt, state: MendState): Operation<boolean> {
  let above: Visit | undefined;
  let { lower, upper } = EVERYTHING;
  let node = yield* visit(tree, tree.root, yield* rootLink(tree));
  for (let step = 1; ; step++) {
    tree.giveUpAfter(step);
    if (!isInUse(tree, node) && !isTakenUp(node)) {
      const to = replacementOf(node);
      const gone = yield* goneWith(tree, node);
      if ((yield* swing(tree, node, to, gone)) || !state.lean) return false;
      node = yield* visit(tree, node.owner, to);
      continue;
    }
    if (!isInternal(node.high)) {
      node.borders = { lower, upper };
      return yield* mendLeaf(tree, node, state);
    }
    const broken = brokenNode(node, above);
    if (broken !== undefined && !state.lean) {
      yield* rebuildIfRoom(tree, broken, state);
      return false;
    }
    const child = childIn(node.image, key.u8, key.at, key.bytes);
    if (child > 0) lower = separatorIn(node.image, child - 1);
    if (child < childrenIn(node.image) - 1) upper = separatorIn(node.image, child);
    above = node;
    node = yield* visit(tree, linkAddress(node.address, child), linkIn(node.image, child));
  }
}

/** Which of an internal node and the one above it has to be rebuilt, if any. */
function brokenNode(node: Visit, above: Visit | undefined): Visit | undefined {
  if (above !== undefined && (isTakenUp(node) || (node.high & ABSORB) !== 0)) return above;
  const { image } = node;
  for (let child = 0; child < childrenIn(image); child++) {
    if ((linkIn(image, child).high & FROZEN) !== 0) return node;
  }
  return undefined;
}

function* rebuildIfRoom(tree: ChimeTree, node: Visit, state: MendState): Operation<void> {
  try {
    yield* rebuildNode(tree, node);
  } catch (error) {
    if (!hasCode(error, 'SW_POOL_FULL')) throw error;
    state.lean = true;
  }
}

function* mendLeaf(tree: ChimeTree, leaf: Visit, state: MendState): Operation<boolean> {
  if (isTakenUp(leaf)) {
    // Its parent has to be replaced first, and there is no room for that.
    if (state.lean) throw new StepwellError('SW_POOL_FULL', 'no room to merge a leaf');
    return false;
  }
  const { i32 } = leaf.image;
  const end = tree.geometry.leafBytes >> 2;
  let flags = 0;
  for (let word = SLOTS_AT >> 2; word < end; word += 2) flags |= i32[word + 1];
  const full = state.home >= 0 && isFull(tree, leaf, state.home);
  if ((flags & FROZEN) === 0 && !full) return true;
  const to = yield* rebuildLeaf(tree, leaf, state.home);
  // Once is enough: who goes on finding the neighbourhood full looks what it is full of.
  state.home = -1;
  // After a split the way goes on below.
  state.replaced = to && to.routes === undefined ? { from: leaf, to: to.to } : undefined;
  return state.replaced !== undefined;
}

export function* rootLink(tree: ChimeTree): Operation<Link> {
  const word = new Scratch(8);
  yield new Batch().read(tree.root, 8, word, 0);
  return { low: word.i32[0], high: word.i32[1] };
}
