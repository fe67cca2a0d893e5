import { StepwellError } from '../../errors.ts';
import {
  ADDS,
  type Address,
  AWAIT,
  type Batch,
  BYTES_READ,
  BYTES_WRITTEN,
  CAS,
  FAA,
  type Fabric,
  type InPlace,
  offsetOf,
  PAUSE,
  READ,
  READS,
  ROUND_TRIPS,
  regionOf,
  SWAPS,
  TrafficCounters,
  WRITE,
  WRITES,
} from '../../verbs/index.ts';
import { type Barrier, barrierOf } from './barrier.ts';
import { readWords, WORD_COPY_BYTES_MAX, writeWords } from './copy.ts';
import type { Region, RegionSource } from './region.ts';

/** READs that are touched ahead of one execution; more would push the first out of the cache. */
const NOTED_MAX = 256;
const WORDS_PER_LINE = 16;
/** The loads of this many verbs are close enough together without being listed first. */
const FEW_VERBS = 4;
/**
 * Looks at an awaited word before this thread sleeps, about 5 us; and for how long it sleeps. The
 * process that is to change the word may need this processor.
 */
const SPINS = 100;
const SLEEP_MICROSECONDS = 20;

/**
 * Verbs on memory that this thread can address: a SharedArrayBuffer or a mapped file.
 *
 * READ and WRITE copy aligned 8-byte words by elements of `WordArray`, which keeps every bit
 * pattern and never tears a word under a concurrent writer (a loop over Int32 elements tears). CAS
 * and FAA are `Atomics` on BigInt64 elements and full barriers.
 */
export class SharedFabric implements Fabric, InPlace {
  readonly traffic = new TrafficCounters();
  readonly source: RegionSource;
  readonly #regions: Region[] = [];
  readonly #fence = new Int32Array(new SharedArrayBuffer(8));
  /** Stands between any two verbs where the processor is ordered weakly; x86 has none. */
  readonly #barrier: Barrier | undefined;
  /**
   * Whether a WRITE may still stand in the store buffer. x86 lets a later load pass an earlier
   * store, which the contract (WRITE before anything) forbids. Always so with a barrier.
   */
  #unfenced: boolean;
  /** Where touching leaves what it loaded, so that the loads are not optimised away. */
  touched = 0;
  /** READs whose lines are to be touched: region, first word, end. */
  readonly #notedRegions = new Uint16Array(NOTED_MAX);
  readonly #notedFirst = new Int32Array(NOTED_MAX);
  readonly #notedEnd = new Int32Array(NOTED_MAX);
  #notedCount = 0;

  constructor(source: RegionSource, barrier = barrierOf()) {
    this.source = source;
    this.#barrier = barrier;
    this.#unfenced = barrier !== undefined;
  }

  /**
   * Loads one word of every line that the batch reads before copying the first: the loads do not
   * depend on one another, so the processor overlaps their cache and TLB misses.
   */
  execute(batch: Batch): void {
    if (batch.length > FEW_VERBS) {
      this.#notedCount = 0;
      this.#note(batch);
      this.#touchNoted();
    } else if (batch.length > 1) {
      this.#touch(batch);
    }
    this.#run(batch);
  }

  window(address: Address, bytes: number): Uint8Array {
    // What its reader loads must not be older than what led here.
    this.#barrier?.();
    const index = regionOf(address);
    const offset = offsetOf(address);
    return this.region(index).u8.subarray(offset, offset + bytes);
  }

  get inPlace(): InPlace {
    return this;
  }

  wordsOf(index: number): Float64Array {
    return this.region(index).f64;
  }

  /** On x86 loads stay in order; only a WRITE of this client may still be on its way. */
  fence(): void {
    if (this.#unfenced) this.#orderBeforeLoad();
  }

  region(index: number): Region {
    return this.#regions[index] ?? this.#map(index);
  }

  #map(index: number): Region {
    const region = this.source.map(index);
    if (region === undefined) {
      throw new StepwellError('SW_POOL_CORRUPT', `an address names region ${index}, not in pool`);
    }
    this.#regions[index] = region;
    return region;
  }

  /**
   * The same for one short batch: one copy is longer than what the processor looks ahead, so two
   * READs would not overlap.
   */
  #touch(batch: Batch): void {
    const { length: rows, kind, address: addresses, bytes } = batch;
    let sum = 0;
    for (let row = 0; row < rows; row++) {
      const length = bytes[row];
      if (kind[row] !== READ || length > WORD_COPY_BYTES_MAX) continue;
      const address = addresses[row];
      const index = regionOf(address);
      const { i32 } = this.region(index);
      const first = offsetOf(address) >>> 2;
      const end = first + (length >> 2);
      for (let word = first; word < end; word += WORDS_PER_LINE) sum = (sum + i32[word]) | 0;
    }
    this.touched = sum;
  }

  /** Notes the READs of the batch for `#touchNoted`. */
  #note(batch: Batch): void {
    const { length: rows, kind, address: addresses, bytes } = batch;
    let count = this.#notedCount;
    for (let row = 0; row < rows; row++) {
      const length = bytes[row];
      if (kind[row] !== READ || length > WORD_COPY_BYTES_MAX) continue;
      if (count === NOTED_MAX) break;
      const address = addresses[row];
      const index = regionOf(address);
      if (this.#regions[index] === undefined) this.#map(index);
      const first = offsetOf(address) >>> 2;
      this.#notedRegions[count] = index;
      this.#notedFirst[count] = first;
      this.#notedEnd[count++] = first + (length >> 2);
    }
    this.#notedCount = count;
  }

  /**
   * Two loops of nothing but loads: as many misses are under way as the processor can keep. The
   * first line of every READ goes before the others, because a TLB miss is the longest to wait for.
   */
  #touchNoted(): void {
    const regions = this.#regions;
    const firsts = this.#notedFirst;
    const ends = this.#notedEnd;
    const indexes = this.#notedRegions;
    const count = this.#notedCount;
    let sum = 0;
    for (let i = 0; i < count; i++) sum = (sum + regions[indexes[i]].i32[firsts[i]]) | 0;
    for (let i = 0; i < count; i++) {
      const end = ends[i];
      for (let word = firsts[i] + WORDS_PER_LINE; word < end; word += WORDS_PER_LINE) {
        sum = (sum + regions[indexes[i]].i32[word]) | 0;
      }
    }
    this.touched = sum;
  }

  #run(batch: Batch): void {
    const { length: rows, kind: kinds, address: addresses, bytes: lengths } = batch;
    let reads = 0;
    let bytesRead = 0;
    for (let row = 0; row < rows; row++) {
      if (kinds[row] !== READ) {
        this.#change(batch, row);
        continue;
      }
      const address = addresses[row];
      const bytes = lengths[row];
      const index = regionOf(address);
      const offset = offsetOf(address);
      const region = this.region(index);
      if (offset + bytes > region.bytes) throw beyond(index, offset);
      if (this.#unfenced) this.#orderBeforeLoad();
      readWords(region, offset, batch.scratch[row], batch.offset[row], bytes);
      reads++;
      bytesRead += bytes;
    }
    const counters = this.traffic.rows;
    if (batch.isWaitedFor) counters[ROUND_TRIPS]++;
    counters[READS] += reads;
    counters[BYTES_READ] += bytesRead;
  }

  /** Any verb but READ, which most are. */
  #change(batch: Batch, row: number): void {
    const kind = batch.kind[row];
    const bytes = batch.bytes[row];
    if (kind === PAUSE) {
      this.#pause(bytes);
      return;
    }
    const address = batch.address[row];
    const index = regionOf(address);
    const offset = offsetOf(address);
    const region = this.region(index);
    if (offset + (kind === AWAIT ? 8 : bytes) > region.bytes) throw beyond(index, offset);
    const counters = this.traffic.rows;
    const scratch = batch.scratch[row];
    const word = batch.offset[row] >> 3;
    if (kind === AWAIT) {
      this.#await(region.i32, offset >>> 2, scratch.i32, 2 * word, bytes);
      return;
    }
    this.#barrier?.();
    if (kind === WRITE) {
      counters[WRITES]++;
      counters[BYTES_WRITTEN] += bytes;
      writeWords(region, offset, scratch, batch.offset[row], bytes);
      this.#unfenced = true;
    } else if (kind === CAS) {
      counters[SWAPS]++;
      const { i64 } = scratch;
      i64[word + 2] = Atomics.compareExchange(region.i64, offset >>> 3, i64[word], i64[word + 1]);
      this.#unfenced = this.#barrier !== undefined;
    } else if (kind === FAA) {
      counters[ADDS]++;
      scratch.i64[word + 1] = Atomics.add(region.i64, offset >>> 3, scratch.i64[word]);
      this.#unfenced = this.#barrier !== undefined;
    } else {
      throw new StepwellError('SW_UNSUPPORTED', 'shared memory has no node that answers calls');
    }
  }

  #orderBeforeLoad(): void {
    if (this.#barrier !== undefined) {
      this.#barrier();
      return;
    }
    Atomics.add(this.#fence, 0, 0);
    this.#unfenced = false;
  }

  /** Spins before it sleeps: another process often changes the word within microseconds. */
  #await(words: Int32Array, at: number, local: Int32Array, from: number, microseconds: number) {
    let until = 0;
    for (let looks = 0; ; looks++) {
      const isSame = Atomics.load(words, at) === local[from];
      if (!isSame || Atomics.load(words, at + 1) !== local[from + 1]) return;
      if (looks < SPINS) continue;
      // A sleep takes longer than it is asked to, so a clock tells when to end.
      const now = performance.now();
      if (until === 0) until = now + microseconds / 1000;
      if (now >= until) return;
      this.#pause(SLEEP_MICROSECONDS);
    }
  }

  #pause(microseconds: number): void {
    // Atomics.wait refuses mapped memory, but sleeping needs only some shared word of our own.
    Atomics.wait(this.#fence, 1, 0, microseconds / 1000);
  }
}

function beyond(index: number, offset: number): StepwellError {
  return new StepwellError('SW_POOL_CORRUPT', `verb beyond region ${index}: ${offset}`);
}
