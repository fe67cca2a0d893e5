import { HEADER_BYTES } from '../../records/layout.ts';
import { type Address, type Operation, Scratch } from '../../verbs/index.ts';
import { childOf } from './cache.ts';
import { reach } from './descent.ts';
import { SLOTS_AT } from './geometry.ts';
import { INTERNAL } from './link.ts';
import { GONE, judge } from './neighbourhood.ts';
import { leaveGone } from './search.ts';
import { type ChimeRequest, type ChimeTree, IDENTITY_AT } from './tree.ts';

/** A leaf as it was at one time, and the keys that can be in it: from `lower` to below `upper`. */
export interface LeafPicture {
  address: Address;
  /** Two halves a slot. */
  slots: Int32Array;
  lower: Uint8Array;
  /** Undefined for the last leaf. */
  upper: Uint8Array | undefined;
}

/**
 * Goes through the leaves in the order of their keys. A leaf's range is the one that the way to it
 * says, and never changes; where it ends the next one begins, also when leaves have been split
 * since. So there are no sibling pointers to keep right, and a key has one leaf to be met in.
 */
export class LeafWalk {
  readonly #tree: ChimeTree;
  readonly #request: ChimeRequest;
  readonly #image: Scratch;
  /** The lowest key that has not been passed; undefined at the end. */
  position: Uint8Array | undefined;

  constructor(tree: ChimeTree, position: Uint8Array | undefined) {
    this.#tree = tree;
    this.#request = tree.newRequest();
    this.#image = new Scratch(tree.geometry.leafBytes);
    this.position = position;
  }

  /** Only before the end. The picture is good until the next call. */
  *next(): Operation<LeafPicture> {
    const tree = this.#tree;
    const request = this.#request;
    const lower = this.position as Uint8Array;
    setKey(request, lower);
    for (let attempt = 1; ; attempt++) {
      const parent = yield* reach(tree, request);
      // At once: what is remembered may be of narrower ranges when the leaf has been read.
      const upper = upperBound(tree, request);
      const { child, leaf } = request;
      const batch = request.batch.clear();
      batch.read(leaf, tree.geometry.leafBytes, this.#image, 0);
      yield batch.read(leaf, 8, request.words, IDENTITY_AT);
      // The first word is read last: of its own leaf, whatever was frozen meanwhile.
      request.checked = true;
      if (judge(tree, request) !== GONE) {
        this.position = upper;
        const slots = this.#image.i32.subarray(SLOTS_AT >> 2, tree.geometry.leafBytes >> 2);
        return { address: leaf, slots, lower, upper };
      }
      yield* leaveGone(tree, request, parent, child, attempt);
    }
  }

  /** Internal nodes above the leaf that was read last. */
  get height(): number {
    let height = 0;
    let node = this.#tree.cache.top;
    for (; node !== undefined; height++) node = node.nodes[childOf(node, this.#request)];
    return height - 1;
  }

  /** Passes a leaf without reading it, as far as is remembered of the tree. */
  *skip(): Operation<void> {
    setKey(this.#request, this.position as Uint8Array);
    yield* reach(this.#tree, this.#request);
    this.position = upperBound(this.#tree, this.#request);
  }
}

function setKey(request: ChimeRequest, key: Uint8Array): void {
  request.outgoing.ensure(HEADER_BYTES + key.length);
  request.outgoing.u8.set(key, HEADER_BYTES);
  request.keyBytes = key.length;
}

/** Where the leaf that was reached ends: the nearest separator above the key on the way down. */
export function upperBound(tree: ChimeTree, request: ChimeRequest): Uint8Array | undefined {
  let upper: Uint8Array | undefined;
  for (let node = tree.cache.top; node !== undefined; ) {
    const child = childOf(node, request);
    if (child < node.separators.length) upper = node.separators[child];
    if ((node.links[2 * child + 1] & INTERNAL) === 0) return upper;
    node = node.nodes[child];
  }
  return upper;
}
