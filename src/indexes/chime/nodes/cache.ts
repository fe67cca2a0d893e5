import type { PackedRoutes } from './internal-node.ts';
import { TAG_VALUES } from './link.ts';
import { CachedNode, NodeArena } from './node-arena.ts';

const ARENA_WORDS_MIN = 16_384;
/** The epoch while the client has announced none. */
const IDLE_EPOCH = -1;

/**
 * One client's copy of the internal nodes, which may be out of date: the range that it gives a node
 * was once that node's range. If the range has become narrower, the client meets the links to the
 * rest on its way. So it need only check that a link still leads to a node of this tree: see
 * `isKnown`.
 */
export class NodeCache {
  readonly #epochs: { readonly announced: number };
  /** The words of the remembered nodes. */
  arena = new NodeArena();
  #top: CachedNode | undefined;
  /** Words of the nodes that were moved into the arena. */
  #moved = 0;
  /** Nodes that are yet to be moved there; their children follow them. */
  readonly #toMove: CachedNode[] = [];
  #epoch = 0;
  #filledIn = 0;
  #bytes = 0;
  bytesMax: number;
  /** No node is moved out of an arena that has fewer words in use. */
  arenaWordsMin = ARENA_WORDS_MIN;

  /** `epochs` tells the epoch that the client has announced, 0 when it is idle. */
  constructor(epochs: { readonly announced: number }, bytesMax: number) {
    this.#epochs = epochs;
    this.bytesMax = bytesMax;
  }

  /** The root link, as the parent of all cached nodes. */
  get top(): CachedNode | undefined {
    return this.#top;
  }

  set top(node: CachedNode) {
    this.#top = node;
  }

  /** Caches a node; the caller links it into its parent. */
  remember(routes: PackedRoutes, link?: { low: number; high: number }): CachedNode {
    const node = new CachedNode(this.arena, routes, this.#epoch, link);
    this.#bytes += node.bytes;
    return node;
  }

  get epoch(): number {
    return this.#epoch;
  }

  /**
   * Called when an operation begins. Forgets everything if this client has announced no epoch,
   * because then blocks may be reused, and long before the tags of cached links wrap around.
   */
  begin(): void {
    const epoch = this.#epochs.announced;
    this.#epoch = epoch === 0 ? IDLE_EPOCH : epoch;
    const old = epoch === 0 || epoch - this.#filledIn > TAG_VALUES / 4;
    if (this.top !== undefined && old) this.forget();
    if (this.#bytes > this.bytesMax) this.#shrink();
    if (this.#toMove.length > 0) this.#moveOne();
    else if (this.arena.size > 2 * this.#moved + this.arenaWordsMin) this.#renewArena();
    if (this.top === undefined) this.#filledIn = epoch;
  }

  forget(): void {
    this.#top = undefined;
    this.#bytes = 0;
    this.arena = new NodeArena();
    this.#moved = 0;
    this.#toMove.length = 0;
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
      for (let child = 0; child < all[i].children; child++) {
        const node = all[i].node(child);
        if (node) all.push(node);
      }
    }
    return all;
  }

  /**
   * Forgets nodes, lowest first, until a quarter of the room is free: first those that no operation
   * has used since the last time (second chance), then any.
   */
  #shrink(): void {
    const all = this.#all();
    let bytes = all.reduce((sum, node) => sum + node.bytes, 0);
    const enough = 0.75 * this.bytesMax;
    for (const spared of [true, false]) {
      for (let i = all.length - 1; i >= 0 && bytes > enough; i--) {
        const parent = all[i];
        for (let child = 0; child < parent.children; child++) {
          const node = parent.node(child);
          if (node === undefined || bytes <= enough || (spared && node.used)) continue;
          if (node.remembersChildren) continue;
          parent.setNode(child, undefined);
          bytes -= node.bytes;
        }
      }
    }
    for (const node of all) node.used = false;
    this.#bytes = bytes;
  }

  /** Begins a new arena: many nodes of the old one are forgotten. */
  #renewArena(): void {
    this.arena = new NodeArena(Math.ceil(1.25 * this.arena.size));
    this.#moved = 0;
    if (this.#top !== undefined) this.#toMove.push(this.#top);
  }

  /** Moves one node in each operation, because moving all at once would delay one. */
  #moveOne(): void {
    const node = this.#toMove.pop();
    if (node === undefined) return;
    const { size } = this.arena;
    node.moveTo(this.arena);
    this.#moved += this.arena.size - size;
    node.pushChildren(this.#toMove);
  }

  /** Whether the link of a missing node cannot lead to a re-used block. */
  isKnown(parent: CachedNode, child: number): boolean {
    return parent.knownIn(child) === (this.#epoch | 0);
  }
}
