import { hasCode, invariant } from '../../errors.ts';
import { type Address, Batch, type Operation, Scratch, UNIT_BYTES } from '../../verbs/index.ts';
import { control } from '../control.ts';
import {
  BLOCK_UNITS_MAX,
  blocksPerChunk,
  CHUNK_BYTES,
  type PoolLayout,
  stateMapBytes,
} from '../layout.ts';
import { BLOCK_CLAIMED, BLOCK_FREE, countFree, isCurrentState } from './block-state.ts';
import { CHUNK_BLOCKS, type ChunkWord, packChunk, unpackChunk } from './chunk-word.ts';
import { ANY_NODE, type ChunkTable } from './chunks.ts';
import { CLAIM_BLOCKS_MAX, SizeClass } from './size-class.ts';
import { Spans } from './spans.ts';

/** Catalog numbers are below this. */
const CATALOG_KEYS = 256;
/** Own chunks that a refill looks through before it takes another chunk. */
const CHUNKS_EXAMINED = 4;
/** Chunks whose state bytes are read in one doorbell when all of them are looked through. */
const MAPS_AT_ONCE = 64;
/** A chunk is worth returning to when an eighth of it is free. */
const WORTHWHILE_SHARE = 8;

/** Carves this client's chunks into blocks and takes blocks back. */
export class Allocator {
  readonly #layout: PoolLayout;
  readonly #chunks: ChunkTable;
  /** What a state byte of a free block is written from. */
  readonly #freeByte = new Scratch(8);
  readonly #classes = new Map<number, SizeClass>();
  readonly spans: Spans;
  /** By chunk: whether this client owns it. */
  #owned: Uint8Array;
  /** By own chunk: its class, if that is one of a memory node. */
  readonly #placed = new Map<number, SizeClass>();
  #last = new SizeClass(0, 1);
  /** Blocks that were given back through this client. */
  freed = 0;
  /** Lines of those since the last look for chunks without a block in use. */
  #freedUnits = 0;
  #owner = 0;
  #incarnation = 0;

  constructor(layout: PoolLayout, chunks: ChunkTable) {
    this.#layout = layout;
    this.#chunks = chunks;
    this.spans = new Spans(layout, chunks);
    this.#owned = new Uint8Array(layout.chunksMax);
  }

  own(owner: number, incarnation: number): void {
    this.#owner = owner;
    this.#incarnation = incarnation;
    this.spans.own(owner, incarnation);
  }

  sizeClass(catalog: number, units: number): SizeClass {
    // Most stores write records of one size: the last class asked for is the next one too.
    if (this.#last.catalog === catalog && this.#last.units === units) return this.#last;
    this.#last = this.#classOn(ANY_NODE, catalog, units);
    return this.#last;
  }

  #classOn(node: number, catalog: number, units: number): SizeClass {
    const key = ((node + 1) * CATALOG_KEYS + catalog) * 65536 + units;
    let found = this.#classes.get(key);
    if (found === undefined) {
      found = new SizeClass(catalog, units, node);
      this.#classes.set(key, found);
    }
    return found;
  }

  /**
   * Before one of these sizes takes a chunk more, an empty chunk of another of them is given back:
   * for an index whose blocks grow out of one size into the next.
   */
  shareChunks(catalog: number, sizes: readonly number[]): void {
    for (const units of sizes) this.sizeClass(catalog, units).shares = true;
  }

  classes(): Iterable<SizeClass> {
    return this.#classes.values();
  }

  /**
   * A block of any size: from a size class, or a span of whole chunks when it is larger. Raises
   * SW_POOL_FULL; with a memory node (counted from 0) when that one is full, whatever the others
   * have: only the caller knows whether another one would do.
   */
  *allocate(catalog: number, units: number, node: number = ANY_NODE): Operation<Address> {
    if (units > BLOCK_UNITS_MAX) return yield* this.spans.allocate(catalog, units, undefined, node);
    const sizeClass =
      node === ANY_NODE ? this.sizeClass(catalog, units) : this.#classOn(node, catalog, units);
    while (sizeClass.cache.length === 0) yield* this.refill(sizeClass);
    return sizeClass.take();
  }

  /** Takes back a block of which no client but this one knows. */
  discard(catalog: number, units: number, address: Address): void {
    this.#classOf(address, catalog, units).cache.push(address);
  }

  /** The class whose own chunk the block is in, or the one of its size. */
  #classOf(address: Address, catalog: number, units: number): SizeClass {
    const isAny = this.#placed.size === 0;
    const placed = isAny ? undefined : this.#placed.get(this.#chunks.chunkOf(address));
    return placed ?? this.sizeClass(catalog, units);
  }

  /**
   * Claims blocks until the cache of the class holds some. Raises SW_POOL_FULL. Of interleaved
   * operations one refills and the others wait for it: two that read the same state bytes would
   * claim the same blocks.
   */
  *refill(sizeClass: SizeClass): Operation<void> {
    while (sizeClass.refilling) {
      yield* control.pause(0);
      if (sizeClass.cache.length > 0) return;
    }
    sizeClass.refilling = true;
    try {
      for (;;) {
        if (sizeClass.current === undefined) yield* this.#nextChunk(sizeClass);
        if ((yield* this.#carve(sizeClass)) > 0) return;
        sizeClass.current = undefined;
      }
    } finally {
      sizeClass.refilling = false;
    }
  }

  /** A refill ahead of need: a full pool is no error yet. */
  *refillQuietly(sizeClass: SizeClass): Operation<void> {
    try {
      yield* this.refill(sizeClass);
    } catch (error) {
      if (!hasCode(error, 'SW_POOL_FULL')) throw error;
    }
  }

  /** Claims the next free blocks of the current chunk. */
  *#carve(sizeClass: SizeClass): Operation<number> {
    const current = sizeClass.current as NonNullable<SizeClass['current']>;
    const { start, map } = current;
    const words = new Scratch(CLAIM_BLOCKS_MAX);
    const batch = new Batch();
    words.u8.fill(BLOCK_CLAIMED);
    const claimed: Address[] = [];
    let index = current.next;
    while (index < sizeClass.blocks && claimed.length < sizeClass.batch) {
      let run = 0;
      while (index + run < sizeClass.blocks && map[index + run] === BLOCK_FREE) {
        if (claimed.length === sizeClass.batch) break;
        claimed.push(sizeClass.blockAt(start, index + run));
        run++;
      }
      if (run > 0) batch.write(start + index, run, words, 0);
      index += run === 0 ? 1 : run;
    }
    current.next = index;
    if (claimed.length > 0) yield batch;
    // Reversed: the cache is a stack, and ascending addresses are kinder to the prefetcher.
    for (let i = claimed.length - 1; i >= 0; i--) sizeClass.cache.push(claimed[i]);
    return claimed.length;
  }

  *#nextChunk(sizeClass: SizeClass): Operation<void> {
    const worthwhile = Math.max(1, Math.floor(sizeClass.blocks / WORTHWHILE_SHARE));
    if (yield* this.#reuseOwn(sizeClass, CHUNKS_EXAMINED, worthwhile)) return;
    if (sizeClass.shares) yield* this.#emptyAnother(sizeClass);
    try {
      yield* this.#takeChunk(sizeClass);
    } catch (error) {
      // Full: now any free block of our own is worth a look through all of them.
      if (yield* this.#reuseOwn(sizeClass, sizeClass.chunks.length, 1, true)) return;
      throw error;
    }
  }

  *#takeChunk(sizeClass: SizeClass): Operation<void> {
    const { catalog, units, node } = sizeClass;
    const word = this.#word({ state: CHUNK_BLOCKS, catalog, units });
    const { chunk, origin } = yield* this.#chunks.take(word, node);
    const start = this.#layout.chunkStart(chunk);
    let map: Uint8Array = new Uint8Array(sizeClass.mapBytes);
    if (origin === 'orphan') map = yield* this.#readMap(sizeClass, start);
    if (origin === 'recycled') {
      yield* control.writeBytes(start, map);
      yield* this.#chunks.prepared(chunk, word);
    }
    this.#noteOwned(chunk);
    if (node !== ANY_NODE) this.#placed.set(chunk, sizeClass);
    sizeClass.chunks.push(chunk);
    sizeClass.current = { start, map, next: 0 };
  }

  #noteOwned(chunk: number): void {
    if (chunk >= this.#owned.length) {
      const grown = new Uint8Array(this.#layout.chunksMax);
      grown.set(this.#owned);
      this.#owned = grown;
    }
    this.#owned[chunk] = 1;
  }

  /** Goes back to one of this client's chunks of which at least `worthwhile` blocks came free. */
  *#reuseOwn(
    sizeClass: SizeClass,
    examine: number,
    worthwhile: number,
    keepsEmpty = false,
  ): Operation<boolean> {
    const { chunks } = sizeClass;
    for (let i = Math.min(examine, chunks.length); i > 0; i--) {
      sizeClass.examined = (sizeClass.examined + 1) % chunks.length;
      const chunk = chunks[sizeClass.examined];
      const start = this.#layout.chunkStart(chunk);
      const map = yield* this.#readMap(sizeClass, start);
      const free = countFree(map, sizeClass.blocks);
      if (free === sizeClass.blocks && chunks.length > 2 && !keepsEmpty) {
        yield* this.#releaseChunk(sizeClass, chunk);
      } else if (free >= worthwhile) {
        sizeClass.current = { start, map, next: 0 };
        return true;
      }
      if (chunks.length === 0) return false;
    }
    return false;
  }

  /** Gives back an empty chunk of another class that shares its chunks, if it is soon found. */
  *#emptyAnother(wanting: SizeClass): Operation<void> {
    for (const sizeClass of [...this.#classes.values()]) {
      const { catalog, shares, refilling } = sizeClass;
      if (sizeClass === wanting || !shares || catalog !== wanting.catalog || refilling) continue;
      // Meanwhile no interleaved operation may carve the chunk that is looked at.
      sizeClass.refilling = true;
      try {
        if (yield* this.#releaseOneEmpty(sizeClass)) return;
      } finally {
        sizeClass.refilling = false;
      }
    }
  }

  *#releaseOneEmpty(sizeClass: SizeClass): Operation<boolean> {
    const { chunks, blocks } = sizeClass;
    for (let i = Math.min(CHUNKS_EXAMINED, chunks.length); i > 0; i--) {
      sizeClass.examined = (sizeClass.examined + 1) % chunks.length;
      const chunk = chunks[sizeClass.examined];
      const start = this.#layout.chunkStart(chunk);
      const map = yield* this.#readMap(sizeClass, start);
      const cached = (address: Address) => this.#chunks.chunkOf(address) === chunk;
      if (countFree(map, blocks) + sizeClass.cache.filter(cached).length < blocks) continue;
      sizeClass.cache.splice(0, Infinity, ...sizeClass.cache.filter((one) => !cached(one)));
      yield* this.#releaseChunk(sizeClass, chunk);
      return true;
    }
    return false;
  }

  *#releaseChunk(sizeClass: SizeClass, chunk: number): Operation<void> {
    const { catalog, units } = sizeClass;
    this.#forgetChunk(sizeClass, chunk);
    yield* this.#chunks.release(chunk, this.#word({ state: CHUNK_BLOCKS, catalog, units }));
  }

  *#readMap(sizeClass: SizeClass, start: Address): Operation<Uint8Array> {
    return yield* control.readBytes(start, sizeClass.mapBytes);
  }

  /**
   * Takes back a block that no client can reach any more. One of an own chunk stays claimed in the
   * cache while it has room; otherwise the batch gets a WRITE that marks it free for its owner.
   */
  free(address: Address, units: number, catalog: number, batch: Batch): void {
    const sizeClass = this.#classOf(address, catalog, units);
    this.freed++;
    this.#freedUnits += units;
    const own = this.#owned[this.#chunks.chunkOf(address)] === 1;
    if (own && sizeClass.cache.length < 2 * sizeClass.batch) sizeClass.cache.push(address);
    else this.#markFree(sizeClass, address, batch);
  }

  #markFree(sizeClass: SizeClass, address: Address, batch: Batch): void {
    batch.write(this.stateByteOf(address, sizeClass.units), 1, this.#freeByte, 0);
  }

  /** Where the state byte of a block of this size stands. */
  stateByteOf(address: Address, units: number): Address {
    const start = this.#layout.chunkStart(this.#chunks.chunkOf(address));
    const mapBytes = stateMapBytes(blocksPerChunk(units));
    return start + (address - start - mapBytes) / (units * UNIT_BYTES);
  }

  /** Visits the blocks of a store that are marked as current, those of a chunk together. */
  *eachCurrent(
    catalog: number,
    visit: (blocks: readonly Address[], units: number) => Operation<void>,
  ): Operation<void> {
    for (const [chunk, packed] of yield* this.#chunks.words()) {
      const word = unpackChunk(packed);
      if (word.state !== CHUNK_BLOCKS || word.catalog !== catalog) continue;
      const sizeClass = new SizeClass(catalog, word.units);
      const start = this.#layout.chunkStart(chunk);
      const map = yield* this.#readMap(sizeClass, start);
      const current: Address[] = [];
      for (let i = 0; i < sizeClass.blocks; i++) {
        if (isCurrentState(map[i])) current.push(sizeClass.blockAt(start, i));
      }
      if (current.length > 0) yield* visit(current, word.units);
    }
  }

  /** Makes every chunk of a store that has no owner this client's own; returns which. */
  *adoptOrphans(catalog: number): Operation<number[]> {
    const orphans = yield* this.#chunks.adoptOrphans(catalog, this.#owner, this.#incarnation);
    for (const { chunk, units } of orphans) {
      this.#noteOwned(chunk);
      this.sizeClass(catalog, units).chunks.push(chunk);
    }
    return orphans.map(({ chunk }) => chunk);
  }

  /** Leaves all that this client has of a store to the others. */
  *leaveStore(catalog: number): Operation<void> {
    yield* this.surrenderCaches(catalog);
    yield* this.disown(catalog);
    for (const [key, one] of this.#classes) if (one.catalog === catalog) this.#classes.delete(key);
    this.#last = new SizeClass(0, 1);
  }

  /**
   * Leaves those of these chunks (all, when left out) that are still this client's own; no block of
   * them is cached.
   */
  *disown(catalog: number, chunks?: ReadonlySet<number>): Operation<void> {
    const left: { chunk: number; word: ChunkWord }[] = [];
    for (const sizeClass of this.#classesOf(catalog)) {
      const { units } = sizeClass;
      for (const chunk of sizeClass.chunks.filter((one) => chunks?.has(one) ?? true)) {
        left.push({ chunk, word: this.#word({ state: CHUNK_BLOCKS, catalog, units }) });
        this.#forgetChunk(sizeClass, chunk);
      }
    }
    yield* this.#chunks.disown(left);
  }

  /**
   * Another client has asked for empty chunks. Takes those of its own back that it was asked for,
   * and gives back the empty ones. It forgets those that are gone: they were empty, so no block of
   * them is in its cache. See emptied-chunks.ts.
   */
  *answerRequests(): Operation<void> {
    if (!this.#owned.includes(1)) return;
    const words = new Map(yield* this.#chunks.words());
    let isAsked = false;
    for (const sizeClass of this.#classes.values()) {
      const { catalog, units, cache } = sizeClass;
      const own = this.#word({ state: CHUNK_BLOCKS, catalog, units });
      for (const chunk of [...sizeClass.chunks]) {
        if (words.get(chunk) === packChunk(own)) continue;
        isAsked = true;
        if (yield* this.#chunks.takeBack(chunk, own)) continue;
        const cached = cache.filter((address) => this.#chunks.chunkOf(address) === chunk);
        invariant(cached.length === 0, `chunk ${chunk} was taken with claimed blocks`);
        this.#forgetChunk(sizeClass, chunk);
      }
    }
    if (isAsked) yield* this.releaseEmptied();
  }

  /** Which of these chunks have no block in use. */
  *emptyOf(chunks: readonly { chunk: number; word: ChunkWord }[]): Operation<Set<number>> {
    const empty = new Set<number>();
    const all = chunks.map(({ chunk, word }) => {
      return { sizeClass: new SizeClass(word.catalog, word.units), chunk };
    });
    yield* this.#readMaps(all, (sizeClass, chunk, map) => {
      if (countFree(map, sizeClass.blocks) === sizeClass.blocks) empty.add(chunk);
    });
    return empty;
  }

  #forgetChunk(sizeClass: SizeClass, chunk: number): void {
    const start = this.#layout.chunkStart(chunk);
    if (sizeClass.current?.start === start) sizeClass.current = undefined;
    sizeClass.chunks.splice(sizeClass.chunks.indexOf(chunk), 1);
    this.#owned[chunk] = 0;
    this.#placed.delete(chunk);
  }

  #classesOf(catalog: number): SizeClass[] {
    return [...this.#classes.values()].filter((sizeClass) => sizeClass.catalog === catalog);
  }

  /** Gives back chunks of a store that hold no block in use; returns how many. */
  *releaseEmpty(catalog: number): Operation<number> {
    const empty: { sizeClass: SizeClass; chunk: number }[] = [];
    yield* this.#eachMap(catalog, (sizeClass, chunk, map) => {
      if (countFree(map, sizeClass.blocks) === sizeClass.blocks) empty.push({ sizeClass, chunk });
    });
    for (const { sizeClass, chunk } of empty) yield* this.#releaseChunk(sizeClass, chunk);
    return empty.length;
  }

  /** Whether so much was freed since the last look that a chunk may be empty. */
  get mayHaveEmptied(): boolean {
    return this.#freedUnits * UNIT_BYTES >= CHUNK_BYTES;
  }

  /**
   * Gives back every own chunk without a block in use, between operations: no other client can take
   * it from a living owner, which may never need it again.
   */
  *releaseEmptied(): Operation<void> {
    this.#freedUnits = 0;
    const catalogs = new Set([...this.#classes.values()].map(({ catalog }) => catalog));
    for (const catalog of catalogs) {
      yield* this.surrenderCaches(catalog);
      yield* this.releaseEmpty(catalog);
    }
  }

  /** Marks the cached blocks of a store free, so that chunks without a block in use show. */
  *surrenderCaches(catalog: number): Operation<void> {
    const batch = new Batch();
    for (const sizeClass of this.#classesOf(catalog)) {
      for (const address of sizeClass.cache.splice(0)) this.#markFree(sizeClass, address, batch);
    }
    if (batch.length > 0) yield batch;
  }

  /**
   * Blocks of this client's chunks for one store that are claimed but neither in its cache nor in
   * `waiting`: in use, retired by others, or lost by a dead client. By address, with their units.
   */
  *claimed(catalog: number, waiting: readonly Address[]): Operation<Map<Address, number>> {
    const found = new Map<Address, number>();
    yield* this.#eachMap(catalog, (sizeClass, chunk, map) => {
      const start = this.#layout.chunkStart(chunk);
      for (let i = 0; i < sizeClass.blocks; i++) {
        if (map[i] !== BLOCK_FREE) found.set(sizeClass.blockAt(start, i), sizeClass.units);
      }
    });
    for (const { cache } of this.#classesOf(catalog)) {
      for (const address of cache) found.delete(address);
    }
    for (const address of waiting) found.delete(address);
    return found;
  }

  /** Looks at the state bytes of all of this client's chunks for one store. */
  *#eachMap(
    catalog: number,
    visit: (sizeClass: SizeClass, chunk: number, map: Uint8Array) => void,
  ): Operation<void> {
    const all = this.#classesOf(catalog).flatMap((sizeClass) =>
      sizeClass.chunks.map((chunk) => ({ sizeClass, chunk })),
    );
    yield* this.#readMaps(all, visit);
  }

  *#readMaps(
    all: readonly { sizeClass: SizeClass; chunk: number }[],
    visit: (sizeClass: SizeClass, chunk: number, map: Uint8Array) => void,
  ): Operation<void> {
    for (let first = 0; first < all.length; first += MAPS_AT_ONCE) {
      const batch = new Batch();
      const some = all.slice(first, first + MAPS_AT_ONCE);
      const maps = some.map(({ sizeClass, chunk }) => {
        const map = new Scratch(sizeClass.mapBytes);
        batch.read(this.#layout.chunkStart(chunk), sizeClass.mapBytes, map, 0);
        return map.u8;
      });
      yield batch;
      some.forEach(({ sizeClass, chunk }, i) => {
        visit(sizeClass, chunk, maps[i]);
      });
    }
  }

  /** Gives all cached blocks back, for leaving the pool. */
  *surrender(): Operation<void> {
    this.#owned.fill(0);
    this.#placed.clear();
    for (const sizeClass of this.#classes.values()) {
      const { catalog, units } = sizeClass;
      const cached = sizeClass.cache.splice(0);
      const batch = new Batch();
      for (const address of cached) this.free(address, units, catalog, batch);
      if (batch.length > 0) yield batch;
    }
  }

  #word(use: { state: number; catalog: number; units: number }): ChunkWord {
    return { ...use, owner: this.#owner, incarnation: this.#incarnation };
  }
}
