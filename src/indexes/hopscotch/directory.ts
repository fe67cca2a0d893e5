import { invariant } from '../../errors.ts';
import type { Reclamation } from '../../pool/clients/reclamation.ts';
import { control } from '../../pool/control.ts';
import type { ChunkTable } from '../../pool/memory/chunks.ts';
import { type Address, Batch, type Operation, Scratch } from '../../verbs/index.ts';
import { depthOfLink, TAG_VALUES } from '../chime/link.ts';
import type { Link } from '../chime/node-io.ts';
import { bornAt, suffixOf } from '../substrates/directory.ts';
import type { Depths, DirectoryParts } from '../substrates/directory-parts.ts';

const LINK_BYTES = 8;

/** A link as it stands in the directory. */
export interface Entry extends Link {
  /** The suffix of the segment's keys, of as many bits as the link says. */
  suffix: number;
  /** Where the link stands. */
  owner: Address;
}

/**
 * The directory of a hopscotch hash table: extendible hashing by suffix bits, laid out as that of
 * RACE (directory.ts of the substrates), but with links that change in the place of addresses: its
 * entries are the link to a segment, or 0.
 *
 * Entry i is 0 until a split makes the segment of suffix i; until then its keys are those of the
 * entry without its highest bit. A link says how many suffix bits its segment's keys have in
 * common, so who reads some entries at different times can tell that they do not belong together.
 * A split fills the child's entry before it changes its own, and deepens the directory before that.
 *
 * What a client remembers of it is one link for each suffix of the global depth. It may be old: the
 * first word of a segment tells.
 */
export class LinkDirectory {
  readonly #parts: DirectoryParts;
  readonly maxDepth: number;
  readonly #initialDepth: number;
  readonly #chunks: ChunkTable;
  readonly #reclamation: Reclamation;
  /** Two halves for each suffix; 0 where the segment is not known. */
  #links: Int32Array = new Int32Array(2);
  /** The epoch in which the link was last known to lead to what it says. */
  #knownIn = new Float64Array(1);
  #depth = 0;
  #isLoaded = false;
  #loadedIn = 0;
  #epoch = 0;
  #idle = 0;

  constructor(
    parts: DirectoryParts,
    { initialDepth, maxDepth }: Depths,
    chunks: ChunkTable,
    reclamation: Reclamation,
  ) {
    this.#parts = parts;
    this.#initialDepth = initialDepth;
    this.maxDepth = maxDepth;
    this.#chunks = chunks;
    this.#reclamation = reclamation;
  }

  /** Global depth as far as this client knows. */
  get depth(): number {
    return this.#depth;
  }

  /** Bytes of what is remembered. */
  get bytes(): number {
    return this.#links.byteLength + this.#knownIn.byteLength;
  }

  /**
   * At the begin of every operation. Without an announced epoch nothing that is remembered is sure;
   * and tags must not come round while a link is remembered.
   */
  begin(): void {
    const epoch = this.#reclamation.announced;
    // No epoch of another operation's, so that nothing counts as known.
    this.#epoch = epoch === 0 ? --this.#idle : epoch;
    if (epoch === 0 || epoch - this.#loadedIn > TAG_VALUES / 4) this.#isLoaded = false;
  }

  /** Where in the memory the link for a hash is, or less than 0 when it is not remembered. */
  lookup(hash: number): number {
    if (!this.#isLoaded) return -1;
    const at = hash & (2 ** this.#depth - 1);
    return this.#links[2 * at] === 0 && this.#links[2 * at + 1] === 0 ? -1 : at;
  }

  low(at: number): number {
    return this.#links[2 * at];
  }

  high(at: number): number {
    return this.#links[2 * at + 1];
  }

  /** Whether the link at `at` cannot lead to a re-used block. */
  isKnown(at: number): boolean {
    return this.#knownIn[at] === this.#epoch;
  }

  /** The link at `at`, if it still is this one, has led to its segment in this operation. */
  confirm(at: number, low: number, high: number): void {
    if (this.#links[2 * at] !== low || this.#links[2 * at + 1] !== high) return;
    this.#knownIn[at] = this.#epoch;
  }

  /** The suffix whose entry stands here. */
  suffixAt(owner: Address): number {
    return this.#parts.indexAt(owner);
  }

  /** Reads the used part of the directory into the memory, if that is too old or was never done. */
  *ensureLoaded(): Operation<void> {
    // Again when the directory was deepened between the two: then a link may say more suffix bits
    // than the memory tells apart. That happens once for each bit.
    for (let loads = 0; !this.#isLoaded; loads++) {
      invariant(loads <= this.maxDepth, 'a link is deeper than the directory');
      yield* this.#load();
    }
  }

  *#load(): Operation<void> {
    const epoch = this.#epoch;
    const depth = yield* this.readDepth();
    const links = new Int32Array(2 ** (depth + 1));
    yield* this.#parts.each(depth, (suffix, low, high) => {
      links[2 * suffix] = low;
      links[2 * suffix + 1] = high;
    });
    if (this.#isLoaded || !inherit(links, depth)) return;
    this.#links = links;
    this.#knownIn = new Float64Array(2 ** depth).fill(epoch);
    this.#depth = depth;
    this.#isLoaded = true;
    this.#loadedIn = this.#reclamation.announced;
  }

  /** The global depth as it is now. */
  readDepth(): Operation<number> {
    return this.#parts.readDepth();
  }

  /**
   * The segment of a hash as it stands in the directory, which is then remembered: 2 round trips.
   * Undefined when a split was seen half: it can be told by now.
   */
  *find(hash: number): Operation<Entry | undefined> {
    const epoch = this.#epoch;
    const depth = yield* this.readDepth();
    const words = new Scratch((depth + 1) * LINK_BYTES);
    const batch = new Batch();
    for (let d = this.#initialDepth; d <= depth; d++) {
      batch.read(this.#parts.entry(suffixOf(hash, d)), LINK_BYTES, words, d * LINK_BYTES);
    }
    yield batch;
    for (let d = depth; d >= this.#initialDepth; d--) {
      const low = words.i32[2 * d];
      const high = words.i32[2 * d + 1];
      const suffix = suffixOf(hash, d);
      // An entry counts at the depth it was born at: at a greater one it is the same entry again.
      const isFilled = low !== 0 || high !== 0;
      if (!isFilled || bornAt(suffix, this.#initialDepth) !== d) continue;
      if (suffixOf(hash, depthOfLink(high)) !== suffix) return undefined;
      this.learn(suffix, { low, high }, epoch);
      return { low, high, suffix, owner: this.#parts.entry(suffix) };
    }
    return invariant(false, 'the directory has no entry for a suffix') as never;
  }

  /** Remembers that a link serves all suffixes that end as it says. */
  learn(suffix: number, { low, high }: Link, epoch = this.#epoch): void {
    if (!this.#isLoaded) return;
    const depth = depthOfLink(high);
    invariant(depth <= this.maxDepth, `a link has ${depth} suffix bits of ${this.maxDepth}`);
    this.#growMemory(depth);
    const count = 2 ** this.#depth;
    for (let i = suffix; i < count; i += 2 ** depth) {
      this.#links[2 * i] = low;
      this.#links[2 * i + 1] = high;
      this.#knownIn[i] = epoch;
    }
  }

  #growMemory(depth: number): void {
    for (; this.#depth < depth; this.#depth++) {
      const links = new Int32Array(2 * this.#links.length);
      links.set(this.#links, 0);
      links.set(this.#links, this.#links.length);
      const knownIn = new Float64Array(2 * this.#knownIn.length);
      knownIn.set(this.#knownIn, 0);
      knownIn.set(this.#knownIn, this.#knownIn.length);
      this.#links = links;
      this.#knownIn = knownIn;
    }
  }

  /** Makes the global depth greater than `depth`, if it is not. */
  *deepen(depth: number): Operation<void> {
    yield* this.#parts.deepen(depth, this.#chunks);
  }

  /** Fills the entry of a suffix that has none. Of all that try, one succeeds. */
  *fill(suffix: number, { low, high }: Link): Operation<void> {
    const link = (BigInt(high >>> 0) << 32n) | BigInt(low >>> 0);
    yield* control.swap(this.#parts.entry(suffix), 0n, link);
  }
}

/**
 * Fills the empty entries with the links that serve them. Where those do not belong together,
 * because a split came between two READs, none: such a suffix is looked up when it is needed.
 * False when a link is deeper than the directory was.
 */
function inherit(links: Int32Array, depth: number): boolean {
  for (let i = 0; i < links.length / 2; i++) {
    if (links[2 * i] !== 0 || links[2 * i + 1] !== 0) {
      if (depthOfLink(links[2 * i + 1]) > depth) return false;
      continue;
    }
    const heir = i & ~(1 << (31 - Math.clz32(i)));
    const high = links[2 * heir + 1];
    const bits = depthOfLink(high);
    if (suffixOf(i, bits) !== suffixOf(heir, bits)) continue;
    links[2 * i] = links[2 * heir];
    links[2 * i + 1] = high;
  }
  return true;
}
