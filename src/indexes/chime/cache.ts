import type { Reclamation } from '../../pool/reclamation.ts';
import { HEADER_BYTES } from '../../records/layout.ts';
import type { Routes } from './internal-node.ts';
import { MARKS, TAG_VALUES } from './link.ts';
import { Signposts } from './signposts.ts';
import type { ChimeRequest } from './tree.ts';

/** Which leaf a request goes to: its key's, that of the highest key below it, or the last. */
export const AT_KEY = 0;
export const BELOW_KEY = 1;
export const AT_LAST = 2;
export type Side = typeof AT_KEY | typeof BELOW_KEY | typeof AT_LAST;

/** The root link is remembered like a node of one child, which nothing leads to. */
const ROOT_LINK = { low: 0, high: 0 };

/** What one client remembers of an internal node, or, with one child, of the root link. */
export class CachedNode implements Routes {
  readonly links: Int32Array;
  readonly separators: readonly Uint8Array[];
  readonly signposts: Signposts;
  /** The children that are remembered, too. */
  readonly nodes: (CachedNode | undefined)[];
  /**
   * By child: the epoch in which the link was last known to lead to what it says. While the client
   * has announced that epoch, what the link leads to cannot have been re-used.
   */
  readonly knownIn: Float64Array;
  /** The link that leads to the node itself; 0 for the root link. */
  readonly low: number;
  readonly high: number;
  /** Whether an operation came by since somebody was last forgotten. */
  used = true;

  constructor({ links, separators }: Routes, epoch: number, { low, high } = ROOT_LINK) {
    this.low = low;
    this.high = high;
    this.links = links;
    this.separators = separators;
    this.signposts = new Signposts(separators);
    this.nodes = new Array(links.length / 2).fill(undefined);
    this.knownIn = new Float64Array(links.length / 2).fill(epoch);
  }

  get bytes(): number {
    const fixed = 24 * this.nodes.length + this.signposts.bytes;
    return this.separators.reduce((sum, { length }) => sum + length, fixed);
  }

  /** The link of this child is another one since. */
  relink(child: number, low: number, high: number, epoch: number): void {
    this.links[2 * child] = low;
    this.links[2 * child + 1] = high;
    this.nodes[child] = undefined;
    this.knownIn[child] = epoch;
  }

  /**
   * Takes over what an older picture of the same node remembers of children that it still has.
   * Their links must agree with the tags: another node may stand in the block by now.
   */
  inherit(older: CachedNode): void {
    const remembered = new Map<number, number>();
    older.nodes.forEach((node, i) => {
      if (node) remembered.set(older.links[2 * i], i);
    });
    if (remembered.size === 0) return;
    this.nodes.forEach((_, i) => {
      const before = remembered.get(this.links[2 * i]);
      if (before === undefined) return;
      const changed = this.links[2 * i + 1] ^ older.links[2 * before + 1];
      if ((changed & ~MARKS) === 0) this.nodes[i] = older.nodes[before];
    });
  }
}

/** What an announced epoch is when the client has announced none. */
const IDLE_EPOCH = -1;

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
  bytesMax: number;

  constructor(reclamation: Reclamation, bytesMax: number) {
    this.#reclamation = reclamation;
    this.bytesMax = bytesMax;
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
    if (this.top !== undefined && old) this.forget();
    if (this.#bytes > this.bytesMax) this.#shrink();
    if (this.top === undefined) this.#filledIn = epoch;
  }

  forget(): void {
    this.top = undefined;
    this.#bytes = 0;
  }

  /** Bytes of everything that is remembered. */
  get bytes(): number {
    let sum = 0;
    for (const node of this.#all()) sum += node.bytes;
    return sum;
  }

  /** Everything that is remembered, parents first. */
  #all(): CachedNode[] {
    const all = this.top ? [this.top] : [];
    for (let i = 0; i < all.length; i++) {
      for (const node of all[i].nodes) if (node) all.push(node);
    }
    return all;
  }

  /**
   * Forgets nodes, from the leaves up, until a quarter of the room is free: first those that no
   * operation has come by since the last time (second chance), then any.
   */
  #shrink(): void {
    const all = this.#all();
    let bytes = all.reduce((sum, node) => sum + node.bytes, 0);
    const enough = 0.75 * this.bytesMax;
    for (const spared of [true, false]) {
      for (let i = all.length - 1; i >= 0 && bytes > enough; i--) {
        const parent = all[i];
        parent.nodes.forEach((node, child) => {
          if (node === undefined || bytes <= enough || (spared && node.used)) return;
          if (node.nodes.some((below) => below !== undefined)) return;
          parent.nodes[child] = undefined;
          bytes -= node.bytes;
        });
      }
    }
    for (const node of all) node.used = false;
    this.#bytes = bytes;
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

/** The child of a remembered node that a request goes to. */
export function childOf(
  { signposts, separators }: Pick<CachedNode, 'separators' | 'signposts'>,
  request: ChimeRequest,
): number {
  const { outgoing, keyBytes, side } = request;
  if (side === AT_LAST) return separators.length;
  return signposts.upTo(outgoing.u8, HEADER_BYTES, keyBytes, side === AT_KEY);
}
