import { invariant, type StepwellError } from '../../errors.ts';
import {
  type Address,
  Batch,
  CAS_BYTES,
  type Operation,
  Scratch,
  setWord,
  swapped,
} from '../../verbs/index.ts';
import { control } from '../control.ts';
import { BLOCK_UNITS_MAX, type PoolLayout } from '../layout.ts';
import { BLOCK_FREE, claimedIn, isCurrentState } from './block-state.ts';
import { fullError } from './chunk-memory.ts';
import {
  blocksWord,
  CHUNK_BLOCKS,
  CHUNK_PREPARING,
  type ChunkOwner,
  freeBlocks,
  holdsBlocks,
  isCarved,
  isFor,
  isOfUse,
  ownedWord,
  unpackChunk,
  useOf,
} from './chunk-word.ts';
import { ANY_NODE, type ChunkTable } from './chunks.ts';
import { FreedBlocks } from './freed-blocks.ts';
import { CLAIM_BLOCKS_MAX, SizeClass } from './size-class.ts';
import { Spans } from './spans.ts';

/** Catalog numbers are below this. */
const CATALOG_KEYS = 256;
/** Most chunks whose state bytes are read in one doorbell. */
const MAPS_AT_ONCE = 64;
/** Pool sizes, in chunks, from which on a store that can make room keeps one more chunk free. */
const RESERVED_OF = [24, 96];
/** In pools of at least this many chunks, stores that ask for it (`keepReserve`) keep one more. */
const MORE_FROM = 40;
/** With this many recycled chunks in sight, the pool no longer counts as full. */
const ROOMY_CHUNKS = 4;

/** Blocks that an allocation did not find: `count` blocks of `units` lines for one store. */
export interface Lacking {
  readonly catalog: number;
  readonly units: number;
  readonly count: number;
}

/**
 * Carves chunks into blocks and takes blocks back. Any client claims free blocks of any chunk that
 * serves its store and size, by a CAS of the words of state bytes. No client owns such a chunk, so
 * none waits for another.
 *
 * A client claims only between announcing an epoch and going idle. Before each claim it reads the
 * chunk's word again, because the chunk may serve another size by now; what the word says holds for
 * the rest of the epoch (emptied-chunks.ts). When a client goes idle it gives back the blocks that
 * it has claimed ahead, so a sleeping client holds nothing.
 */
export class Allocator {
  readonly #layout: PoolLayout;
  readonly #chunks: ChunkTable;
  readonly #classes = new Map<number, SizeClass>();
  readonly spans: Spans;
  /** Freed blocks that are yet to be marked free. */
  readonly #returning: FreedBlocks;
  /** By chunk: the word of a chunk that this client recycles. */
  readonly #emptied = new Map<number, bigint>();
  /** Claims that are not in use. */
  readonly #idleClaims: WordClaim[] = [];
  /** Batches with one pause each, for waiting operations. */
  readonly #idleTurns: Batch[] = [];
  /** Uses (`useOf`) of which this client allocates blocks on chosen memory nodes. */
  readonly #placed = new Set<number>();
  #last = new SizeClass(0, 1);
  /** Blocks that were given back through this client. */
  freed = 0;
  /** Whether this client has emptied a chunk since it last looked for empty chunks. */
  hasEmptied = false;
  /** This client as the words of chunks name it. */
  client: ChunkOwner = { owner: 0, incarnation: 0 };
  /** Whether this client may claim: it has announced an epoch. */
  #isOnline = false;
  /** The phase of sweeps that it read when it announced the epoch. */
  #phase = 0;
  /** The frontier of unused chunks that it read then. */
  #frontier = 0;
  /** Whether the pool was full when this client last needed memory. */
  isTight = false;
  /** The blocks that this client did not find then. */
  #lacking: Lacking | undefined;
  /** The blocks that each failed allocation lacks: operations in flight lack different ones. */
  readonly #lackedBy = new WeakMap<object, Lacking>();
  /** Stores that keep chunks in reserve, because making room takes memory; 1: one more chunk. */
  readonly #reserving = new Map<number, 0 | 1>();
  /** How many chunks of the reserve such a store may take next. */
  reserveAllowed = 0;
  /**
   * Chunks that this client drains or has drained (store/eviction/chunk-drain.ts), and how many
   * freed blocks of each it keeps if it has no others of that size.
   */
  readonly draining = new Map<number, number>();

  constructor(layout: PoolLayout, chunks: ChunkTable) {
    this.#layout = layout;
    this.#chunks = chunks;
    this.spans = new Spans(layout, chunks, this);
    this.#returning = new FreedBlocks(layout, chunks);
  }

  /**
   * Called after this client has announced an epoch and then read the phase of sweeps and the
   * frontier. In a new phase it first gives back what it claimed in an earlier one: see
   * indexes/sweep.ts.
   */
  *begin(phase: number, frontier: number): Operation<void> {
    this.#frontier = frontier;
    invariant(phase >= this.#phase, 'the phase of sweeps decreased');
    if (phase !== this.#phase) yield* this.surrender();
    this.#phase = phase;
    this.#isOnline = true;
  }

  /** This client is about to go idle: it gives back what it has claimed ahead. */
  *end(): Operation<void> {
    yield* this.surrender();
    this.#isOnline = false;
  }

  /**
   * Whether no chunk beyond the largest reserve was unused when this client last looked. Then
   * memory comes only from what clients free. Each announcement of an epoch refreshes this, at no
   * extra round trip.
   */
  get isUsedUp(): boolean {
    const { chunksMax } = this.#layout;
    const kept = RESERVED_OF.length + (chunksMax >= MORE_FROM ? 1 : 0);
    return this.isTight || this.#frontier + kept >= chunksMax;
  }

  /** A sweep is under way: see indexes/sweep.ts. */
  get #isSweeping(): boolean {
    return this.#phase % 2 === 1;
  }

  /**
   * Gives a store a reserve, because it needs memory to make room in a full pool: it evicts to get
   * blocks of another size, or merges leaves. `more` is 1 for a store that may lack blocks of two
   * sizes at the same time: it keeps one more chunk.
   */
  keepReserve(catalog: number, more: 0 | 1 = 0): void {
    this.#reserving.set(catalog, more || (this.#reserving.get(catalog) ?? 0));
  }

  /** The state byte of a block that this client claims now. */
  get claim(): number {
    return claimedIn(Math.ceil(this.#phase / 2));
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
      if (node !== ANY_NODE) this.#placed.add(useOf(catalog, units));
    }
    return found;
  }

  classes(): Iterable<SizeClass> {
    return this.#classes.values();
  }

  /**
   * A block of any size: from a size class, or a span of whole chunks if it is larger. Raises
   * SW_POOL_FULL. With a memory node (counted from 0) it does so when that node is full, even if
   * others have room: only the caller knows whether another node would do.
   */
  *allocate(catalog: number, units: number, node: number = ANY_NODE): Operation<Address> {
    if (units > BLOCK_UNITS_MAX) {
      try {
        return yield* this.spans.allocate(catalog, units, undefined, node);
      } catch (error) {
        throw this.#noteLack(fullError(error), catalog, units);
      }
    }
    const sizeClass =
      node === ANY_NODE ? this.sizeClass(catalog, units) : this.#classOn(node, catalog, units);
    while (sizeClass.cache.length === 0) yield* this.refill(sizeClass);
    return sizeClass.take();
  }

  /**
   * Several blocks, or none. Otherwise operations in flight that each held one of two blocks could
   * wait for each other for ever. Raises SW_POOL_FULL.
   */
  *allocateTogether(catalog: number, units: number, count: number): Operation<Address[]> {
    const sizeClass = this.sizeClass(catalog, units);
    try {
      while (sizeClass.cache.length < count) yield* this.refill(sizeClass);
    } catch (error) {
      throw this.#noteLack(fullError(error), catalog, units, count);
    }
    return Array.from({ length: count }, () => sizeClass.take());
  }

  /** As `allocateTogether`, of blocks that this client holds already; else none. */
  takeTogether(catalog: number, units: number, count: number): Address[] {
    const sizeClass = this.sizeClass(catalog, units);
    const has = sizeClass.cache.length >= count;
    return has ? Array.from({ length: count }, () => sizeClass.take()) : [];
  }

  #noteLack(error: StepwellError, catalog: number, units: number, count = 1): StepwellError {
    this.#lacking = { catalog, units, count };
    this.#lackedBy.set(error, this.#lacking);
    return error;
  }

  /** The memory that an operation lacked when it failed with this error, as far as is known. */
  lackedBy(error: StepwellError): Lacking | undefined {
    return this.#lackedBy.get(error) ?? this.#lacking;
  }

  /** Takes back a block that no other client knows. */
  discard(catalog: number, units: number, address: Address): void {
    this.#classOf(address, catalog, units).cache.push(address);
  }

  /** The class that takes back a block. */
  #classOf(address: Address, catalog: number, units: number): SizeClass {
    if (!this.#placed.has(useOf(catalog, units))) return this.sizeClass(catalog, units);
    const node = this.#layout.nodeOfChunk(this.#chunks.chunkOf(address));
    return this.#classOn(node, catalog, units);
  }

  /**
   * Claims blocks until the cache of the class holds some, twice as many each time it has run dry.
   * Raises SW_POOL_FULL. If operations are interleaved, one refills and the others wait for it.
   * `isAhead` when no operation lacks a block: such a refill takes no chunk of the reserve.
   */
  *refill(sizeClass: SizeClass, isAhead = false): Operation<void> {
    if (sizeClass.refilling) {
      yield* this.#waitForRefill(sizeClass);
      if (sizeClass.cache.length > 0) return;
    }
    invariant(this.#isOnline, 'an idle client claims blocks');
    sizeClass.refilling = true;
    const claim = this.#idleClaims.pop() ?? new WordClaim();
    try {
      for (;;) {
        sizeClass.current ??= yield* this.#nextChunk(sizeClass, isAhead);
        if (sizeClass.current === undefined) return;
        if ((yield* this.#claimIn(sizeClass, sizeClass.current, claim)) > 0) return;
        sizeClass.current = undefined;
      }
    } finally {
      this.#idleClaims.push(claim);
      const most = sizeClass.claimsMax(this.isTight);
      sizeClass.batch = Math.min(2 * sizeClass.batch, most);
      sizeClass.refilling = false;
    }
  }

  /** Waits until another operation of this client has claimed blocks, or has failed to. */
  *#waitForRefill(sizeClass: SizeClass): Operation<void> {
    // Reused, because hundreds of operations may wait, and each yields many times.
    const turn = this.#idleTurns.pop() ?? new Batch().pause(0, new Scratch(8));
    sizeClass.waiting++;
    try {
      do yield turn;
      while (sizeClass.refilling && sizeClass.cache.length === 0);
    } finally {
      sizeClass.waiting--;
      this.#idleTurns.push(turn);
    }
  }

  /** A refill ahead of need: a full pool is no error yet. */
  *refillQuietly(sizeClass: SizeClass): Operation<void> {
    const { batch } = sizeClass;
    try {
      yield* this.refill(sizeClass, true);
    } catch (error) {
      fullError(error);
    } finally {
      sizeClass.batch = batch;
    }
  }

  /**
   * Claims free blocks of a chunk, starting where this client's last claim in it ended. Returns how
   * many: 0 if the chunk serves another use by now, has no free block, or other clients were
   * faster.
   */
  *#claimIn(
    sizeClass: SizeClass,
    current: NonNullable<SizeClass['current']>,
    claim: WordClaim,
  ): Operation<number> {
    const { chunk } = current;
    const { batch, seen } = claim;
    const { catalog, units, mapBytes } = sizeClass;
    const at = this.#layout.chunkWord(chunk);
    const start = this.#layout.chunkStart(chunk);
    seen.ensure(mapBytes + 8);
    yield batch.clear().read(start, mapBytes, seen, 0).read(at, 8, seen, mapBytes);
    const word = unpackChunk(seen.i64[mapBytes >> 3]);
    if (word.state !== CHUNK_BLOCKS || word.catalog !== catalog || word.units !== units) return 0;
    const ahead = Math.min(sizeClass.batch, sizeClass.claimsMax(this.isTight));
    // Blocks that operations wait for are not claimed ahead: they are used at once.
    const most = this.isTight ? ahead : ahead + sizeClass.waiting;
    claim.choose(sizeClass, this.claim, current.next, most);
    if (claim.words === 0) {
      this.#chunks.survey.noteFutile(chunk, word.free);
      return 0;
    }
    yield claim.post(start);
    const claimed = claim.collect(sizeClass, start);
    current.next = claim.next;
    if (claimed === 0) return 0;
    seen.i64[0] = freeBlocks(-claimed);
    yield batch.clear().faa(at, seen, 0);
    // A chunk with a claimed block is not recycled: emptied-chunks.ts.
    const isStill = isOfUse(seen.i32[2], useOf(catalog, units));
    invariant(isStill, 'a chunk went to another use while blocks of it were claimed');
    return claimed;
  }

  /**
   * A chunk to claim in: one with an eighth of its blocks free, else an unused one, else any with a
   * free block. A full pool tries the fullest chunk before the unused ones. Raises SW_POOL_FULL;
   * a refill ahead of need may get none instead.
   */
  *#nextChunk(sizeClass: SizeClass, isAhead: boolean): Operation<SizeClass['current']> {
    const { catalog, units, node } = sizeClass;
    const spared = this.#spared(sizeClass, isAhead);
    const use = useOf(catalog, units);
    const wasTight = this.isTight;
    const roomy = yield* this.#chunks.partlyFree(use, sizeClass.worthwhile, node, wasTight);
    sizeClass.isScarce = roomy === undefined;
    if (roomy !== undefined) return this.#enteredBeside(sizeClass, roomy);
    if (wasTight && this.#chunks.survey.recycled <= spared) {
      const some = this.#chunks.fullest(use, node);
      if (some !== undefined) return this.#enteredBeside(sizeClass, some);
      // When this client announced its epoch, no chunks but the reserve were unused.
      if (this.#frontier + spared >= this.#layout.chunksMax) {
        if (isAhead) return undefined;
        throw this.#noteLack(this.#chunks.fullOn(node), catalog, units);
      }
    }
    try {
      const taken = yield* this.#takeChunk(sizeClass, spared);
      sizeClass.isScarce = false;
      return taken;
    } catch (error) {
      this.#noteLack(fullError(error), catalog, units);
      this.isTight = true;
      const any = yield* this.#chunks.partlyFree(use, 1, node, true);
      if (any === undefined) throw error;
      return this.#enteredBeside(sizeClass, any);
    }
  }

  /** Clients that choose the same chunk begin claiming at different blocks. */
  #enteredBeside(sizeClass: SizeClass, chunk: number): { chunk: number; next: number } {
    const start = Math.imul(this.client.owner, 0x9e3779b1) >>> 8;
    return { chunk, next: start % sizeClass.blocks };
  }

  *#takeChunk(sizeClass: SizeClass, spared: number): Operation<{ chunk: number; next: number }> {
    const { catalog, units, node, blocks } = sizeClass;
    const word = blocksWord(catalog, units, blocks);
    const owned = ownedWord(CHUNK_PREPARING, catalog, units, this.client);
    const { chunk, origin } = yield* this.#chunks.take(word, owned, node, spared);
    this.reserveAllowed = Math.max(0, this.reserveAllowed - 1);
    if (origin === 'recycled') {
      const start = this.#layout.chunkStart(chunk);
      yield* control.writeBytes(start, new Uint8Array(sizeClass.mapBytes));
      yield* this.#chunks.prepared(chunk, owned, word);
    }
    if (origin === 'fresh' || this.#chunks.survey.recycled >= ROOMY_CHUNKS) this.isTight = false;
    return { chunk, next: 0 };
  }

  /** How many free chunks this class must leave free. */
  #spared({ catalog, node }: SizeClass, isAhead: boolean): number {
    if (node !== ANY_NODE || (this.reserveAllowed > 0 && !isAhead)) return 0;
    return this.reserveOf(catalog);
  }

  /** How many free chunks a store leaves free, unless it makes room. */
  reserveOf(catalog: number): number {
    const more = this.#reserving.get(catalog);
    if (more === undefined) return 0;
    const { chunksMax } = this.#layout;
    const usual = RESERVED_OF.filter((least) => chunksMax >= least).length;
    return usual + (chunksMax >= MORE_FROM ? more : 0);
  }

  /**
   * Takes back a block that no client can reach any more. A client that writes keeps some such
   * blocks, claimed, in its cache, but none during a sweep (indexes/sweep.ts). `flushFreed` marks
   * the others free.
   */
  free(address: Address, units: number, catalog: number): void {
    this.freed++;
    const sizeClass = this.#classOf(address, catalog, units);
    const keeps = this.#isOnline && !this.#isSweeping && sizeClass.isUsed;
    const { draining } = this;
    const kept = draining.size > 0 ? draining.get(this.#chunks.chunkOf(address)) : undefined;
    const room = kept ?? 2 * sizeClass.claimsMax(this.isTight);
    if (keeps && sizeClass.cache.length < room) sizeClass.cache.push(address);
    else this.#returning.add(address, units, catalog);
  }

  /** Marks freed blocks free, so that any client can claim them. */
  *flushFreed(): Operation<void> {
    if (this.#returning.length === 0) return;
    const emptied = yield* this.#returning.flush();
    // The chunk in which this client claims would soon be needed again.
    if (emptied.some((chunk) => !this.isClaimingIn(chunk))) this.hasEmptied = true;
  }

  /** The address of the state byte of a block of this size. */
  stateByteOf(address: Address, units: number): Address {
    return this.#layout.stateByteOf(address, units);
  }

  /** Visits the blocks of a store that are marked as current, those of a chunk together. */
  *eachCurrent(
    catalog: number,
    visit: (blocks: readonly Address[], units: number) => Operation<void>,
  ): Operation<void> {
    for (const [chunk, packed] of yield* this.#chunks.words()) {
      const word = unpackChunk(packed);
      if (!isCarved(word.state) || word.catalog !== catalog) continue;
      const sizeClass = new SizeClass(catalog, word.units);
      const start = this.#layout.chunkStart(chunk);
      const map = yield* control.readBytes(start, sizeClass.mapBytes);
      // If the chunk was emptied, it may have been recycled: then these were no state bytes.
      const isSure = holdsBlocks(word.state);
      if (!isSure && !isFor(catalog, word.units, yield* this.#chunks.wordOf(chunk))) continue;
      const current: Address[] = [];
      for (let i = 0; i < sizeClass.blocks; i++) {
        if (isCurrentState(map[i])) current.push(sizeClass.blockAt(start, i));
      }
      if (current.length > 0) yield* visit(current, word.units);
    }
  }

  /** Whether this client claims blocks of the chunk at present. */
  isClaimingIn(chunk: number): boolean {
    for (const { current } of this.#classes.values()) if (current?.chunk === chunk) return true;
    return false;
  }

  /** Forgets in which chunks this client claims, so that these can be recycled, too. */
  leaveChunks(): void {
    for (const sizeClass of this.#classes.values()) sizeClass.current = undefined;
  }

  /** Whether this client has claimed blocks ahead. */
  get holdsClaims(): boolean {
    for (const { cache } of this.#classes.values()) if (cache.length > 0) return true;
    return false;
  }

  /** Units of the blocks that this client has claimed ahead. */
  get claimedUnits(): number {
    let claimed = 0;
    for (const { cache, units } of this.#classes.values()) claimed += cache.length * units;
    return claimed;
  }

  /** Drops the cached blocks, which belong to other clients by now. */
  forgetClaims(): void {
    for (const sizeClass of this.#classes.values()) sizeClass.empty();
  }

  /** Notes the word of a chunk that this client has locked, to retire it: emptied-chunks.ts. */
  noteEmptied(chunk: number, word: bigint): void {
    invariant(!this.#emptied.has(chunk), 'a chunk is locked twice to be recycled');
    this.#emptied.set(chunk, word);
  }

  /** Adds the verbs that make such a chunk free for any use. */
  recycle(chunk: number, batch: Batch): void {
    const from = this.#emptied.get(chunk);
    invariant(from !== undefined, `chunk ${chunk} was not emptied by this client`);
    this.#emptied.delete(chunk);
    this.spans.recycle(chunk, from, batch);
  }

  /** Gives back everything that this client holds of a store. */
  *leaveStore(catalog: number): Operation<void> {
    yield* this.surrender(catalog);
    this.#reserving.delete(catalog);
    for (const [key, one] of this.#classes) if (one.catalog === catalog) this.#classes.delete(key);
    this.#last = new SizeClass(0, 1);
  }

  /** Marks free the blocks that this client has claimed ahead, of one store or of all. */
  *surrender(catalog?: number): Operation<void> {
    for (const sizeClass of this.#classes.values()) {
      if (catalog !== undefined && sizeClass.catalog !== catalog) continue;
      if (sizeClass.cache.length === 0) continue;
      const { units } = sizeClass;
      for (const address of sizeClass.empty())
        this.#returning.add(address, units, sizeClass.catalog);
    }
    yield* this.flushFreed();
  }

  /** Marks free the blocks of one chunk that this client has claimed ahead. */
  *surrenderIn(chunk: number): Operation<void> {
    for (const { cache, units, catalog } of this.#classes.values()) {
      const isThere = (address: Address) => this.#chunks.chunkOf(address) === chunk;
      for (let at = cache.findIndex(isThere); at >= 0; at = cache.findIndex(isThere)) {
        this.#returning.add(cache.splice(at, 1)[0], units, catalog);
      }
    }
    yield* this.flushFreed();
  }

  /** Visits the state bytes of all chunks of a store. `visit` may keep the bytes that it gets. */
  *eachMap(
    catalog: number,
    visit: (sizeClass: SizeClass, chunk: number, map: Uint8Array) => void,
  ): Operation<void> {
    const all: { sizeClass: SizeClass; chunk: number }[] = [];
    const classes = new Map<number, SizeClass>();
    for (const [chunk, packed] of yield* this.#chunks.words()) {
      const word = unpackChunk(packed);
      if (!isCarved(word.state) || word.catalog !== catalog) continue;
      const sizeClass = classes.get(word.units) ?? new SizeClass(catalog, word.units);
      classes.set(word.units, sizeClass);
      all.push({ sizeClass, chunk });
    }
    yield* this.readMaps(all, visit);
  }

  *readMaps(
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
}

/** A claim of free blocks in a chunk, by words of its state bytes. Reused. */
class WordClaim {
  readonly batch = new Batch();
  /** The state bytes of the chunk, and the chunk's word behind them. */
  readonly seen = new Scratch(0);
  /** Indices of the state words; #swaps has the expected and the new value of each. */
  readonly #chosen = new Int32Array(CLAIM_BLOCKS_MAX);
  readonly #swaps = new Scratch(0);
  words = 0;
  /** Where the next claim in the chunk begins. */
  next = 0;

  /** Chooses up to `most` free blocks, from the word of block `from` on, wrapping around. */
  choose({ blocks }: SizeClass, state: number, from: number, most: number): void {
    const all = Math.ceil(blocks / 8);
    const firstWord = from >> 3;
    let count = 0;
    this.words = 0;
    for (let i = 0; i < all && count < most && this.words < CLAIM_BLOCKS_MAX; i++) {
      const word = (firstWord + i) % all;
      const free = this.#freeIn(word, blocks);
      if (free === 0) continue;
      this.#chosen[this.words++] = word;
      count += free;
      this.next = 8 * word;
    }
    this.#swaps.ensure(CAS_BYTES * this.words);
    let left = most;
    for (let i = 0; i < this.words; i++) {
      const word = this.#chosen[i];
      const { i32, u8 } = this.#swaps;
      const at = CAS_BYTES * i;
      setWord(this.#swaps, at, this.seen.i32[2 * word], this.seen.i32[2 * word + 1]);
      i32[(at >> 2) + 2] = i32[at >> 2];
      i32[(at >> 2) + 3] = i32[(at >> 2) + 1];
      for (let byte = 0; byte < 8 && left > 0; byte++) {
        if (8 * word + byte >= blocks || u8[at + byte] !== BLOCK_FREE) continue;
        u8[at + 8 + byte] = state;
        left--;
      }
    }
  }

  #freeIn(word: number, blocks: number): number {
    let free = 0;
    const end = Math.min(8, blocks - 8 * word);
    for (let byte = 0; byte < end; byte++) {
      if (this.seen.u8[8 * word + byte] === BLOCK_FREE) free++;
    }
    return free;
  }

  post(start: Address): Batch {
    this.batch.clear();
    for (let i = 0; i < this.words; i++) {
      this.batch.cas(start + 8 * this.#chosen[i], this.#swaps, CAS_BYTES * i);
    }
    return this.batch;
  }

  /** Adds the blocks of the words whose CAS succeeded to the class; returns how many. */
  collect(sizeClass: SizeClass, start: Address): number {
    let claimed = 0;
    const { u8 } = this.#swaps;
    // Backwards, because the cache is a stack, and the prefetcher likes ascending addresses.
    for (let i = this.words - 1; i >= 0; i--) {
      const at = CAS_BYTES * i;
      if (!swapped(this.#swaps, at)) continue;
      for (let byte = 7; byte >= 0; byte--) {
        if (u8[at + byte] === u8[at + 8 + byte]) continue;
        sizeClass.cache.push(sizeClass.blockAt(start, 8 * this.#chosen[i] + byte));
        claimed++;
      }
    }
    return claimed;
  }
}
