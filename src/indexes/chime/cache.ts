import type { Reclamation } from '../../pool/reclamation.ts';
import { HEADER_BYTES } from '../../records/layout.ts';
import { childFor, type Routes } from './internal-node.ts';
import { INTERNAL, TAG_VALUES } from './link.ts';
import type { ChimeRequest } from './tree.ts';

/** What one client remembers of an internal node, or, with one child, of the root link. */
export class CachedNode implements Routes {
  readonly links: Int32Array;
  readonly separators: readonly Uint8Array[];
  /** The children that are remembered, too. */
  readonly nodes: (CachedNode | undefined)[];
  /**
   * By child: the epoch in which the link was last known to lead to what it says. While the client
   * has announced that epoch, what the link leads to cannot have been re-used.
   */
  readonly knownIn: Float64Array;

  constructor({ links, separators }: Routes, epoch: number) {
    this.links = links;
    this.separators = separators;
    this.nodes = new Array(links.length / 2).fill(undefined);
    this.knownIn = new Float64Array(links.length / 2).fill(epoch);
  }

  get bytes(): number {
    return this.separators.reduce((sum, { length }) => sum + length, 24 * this.nodes.length);
  }

  /** The link of this child is another one since. */
  relink(child: number, low: number, high: number, epoch: number): void {
    this.links[2 * child] = low;
    this.links[2 * child + 1] = high;
    this.nodes[child] = undefined;
    this.knownIn[child] = epoch;
  }

  /** Takes over what an older picture of the same node remembers of children that it still has. */
  inherit(older: CachedNode): void {
    const remembered = new Map<number, CachedNode>();
    older.nodes.forEach((node, i) => {
      if (node) remembered.set(older.links[2 * i], node);
    });
    if (remembered.size === 0) return;
    this.nodes.forEach((_, i) => {
      const found = remembered.get(this.links[2 * i]);
      if (found && (this.links[2 * i + 1] & INTERNAL) !== 0) this.nodes[i] = found;
    });
  }
}

/** What an announced epoch is when the client has announced none. */
const IDLE_EPOCH = -1;
/** Bytes of internal nodes that a client keeps by default. */
const CACHE_BYTES_MAX = 64 * 2 ** 20;

/**
 * One client's picture of the internal nodes. It may be older than the tree: a key's range in it
 * was the range of the node it leads to, and ranges only ever become narrower by links of which the
 * client learns when it follows them. Only whether a link still leads to a node of this tree has to
 * be made sure of, see `isKnown`.
 */
export class NodeCache {
  readonly #reclamation: Reclamation;
  top: CachedNode | undefined;
  #epoch = 0;
  #filledIn = 0;
  #bytes = 0;
  bytesMax = CACHE_BYTES_MAX;

  constructor(reclamation: Reclamation) {
    this.#reclamation = reclamation;
  }

  get epoch(): number {
    return this.#epoch;
  }

  /**
   * At the begin of every operation. Without an announced epoch nothing that is remembered is sure;
   * and tags must not come round while a link is remembered.
   */
  begin(): void {
    const epoch = this.#reclamation.announced;
    this.#epoch = epoch === 0 ? IDLE_EPOCH : epoch;
    const old = epoch === 0 || epoch - this.#filledIn > TAG_VALUES / 4;
    if (this.top !== undefined && (old || this.#bytes > this.bytesMax)) this.forget();
    if (this.top === undefined) this.#filledIn = epoch;
  }

  forget(): void {
    this.top = undefined;
    this.#bytes = 0;
  }

  grow(node: CachedNode): CachedNode {
    this.#bytes += node.bytes;
    return node;
  }

  /** Whether the link of the request's leaf, or missing node, cannot lead to a re-used block. */
  isKnown(parent: CachedNode, child: number): boolean {
    return parent.knownIn[child] === this.#epoch;
  }
}

/** A place in the cache: a child of a remembered node. */
export interface Place {
  node: CachedNode;
  child: number;
}

/** The child of a remembered node whose range the request's key is in. */
export function childOf(node: CachedNode, request: ChimeRequest): number {
  return childFor(node.separators, request.outgoing.u8, HEADER_BYTES, request.keyBytes);
}
