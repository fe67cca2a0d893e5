import { CAS, FAA, READ, type Scratch, UNIT_BYTES, WRITE } from '../../../verbs/index.ts';
import { type Barrier, barrierOf } from '../../shared/barrier.ts';
import { copyLine, readWords, writeWords } from '../../shared/copy.ts';
import type { FileLocks } from '../../shared/file-locks.ts';
import type { Region, RegionSource } from '../../shared/region.ts';
import {
  NODE_REGIONS_MAX,
  requestBytes,
  resultBytes,
  verbBytes,
  verbKind,
  verbRegion,
  WireError,
} from '../wire.ts';

/** "STEPGONE": the first word of a memory while it is being erased. */
export const ERASING = 0x45_4e_4f_47_50_45_54_53n;
/** How much of a long READ to load ahead. */
const TOUCHED_BYTES_MAX = 1024;
/** Bytes to erase in one turn of the event loop. */
const ERASE_BYTES = 4 * 1024 * 1024;
const ZEROS = new Uint8Array(ERASE_BYTES);

/** Compares first: reading an untouched page takes no memory, writing to it does. */
function clear(bytes: Uint8Array): void {
  if (Buffer.compare(bytes, ZEROS.subarray(0, bytes.length)) !== 0) bytes.fill(0);
}

/** Loads the cache lines of a long READ, except the first. */
function touch({ i32 }: Region, offset: number, bytes: number): number {
  let sum = 0;
  const end = (offset + Math.min(bytes, TOUCHED_BYTES_MAX)) >> 2;
  const step = UNIT_BYTES >> 2;
  for (let word = (offset >> 2) + step; word < end; word += step) sum ^= i32[word];
  return sum;
}

/** A verb beyond the memory. Its whole batch is refused, but the connection stays open. */
export class BeyondMemory extends Error {
  override readonly name = 'BeyondMemory';
}

/**
 * The memory of a node and the verbs on it. It uses the same copies and `Atomics` as a client that
 * maps the memory, so both kinds of clients may be attached at once.
 */
export class NodeMemory {
  readonly #regions: Region[] = [];
  readonly #source: RegionSource;
  readonly regionBytes: number;
  /** Present for a memory in a file. */
  readonly locks: FileLocks | undefined;
  readonly #fence = new Int32Array(new SharedArrayBuffer(4));
  /** Orders successive verbs on a weakly ordered processor. */
  readonly #barrier: Barrier | undefined;
  /** Whether a WRITE may still stand in the store buffer; see SharedFabric. */
  #unfenced = false;
  /** The end of the results of the last READs. */
  #readTo = 0;
  /** Receives what was loaded ahead, so that the loads are not optimised away. */
  touched = 0;
  verbs = 0;
  /** Number of verbs that may have changed the memory. */
  changes = 0;

  constructor(
    source: RegionSource,
    regions: number,
    regionBytes: number,
    barrier: Barrier | undefined = barrierOf(),
  ) {
    this.#barrier = barrier;
    this.regionBytes = regionBytes;
    this.locks = source.locks;
    this.#source = source;
    this.#mapTo(regions);
    if (this.#regions.length < regions) {
      throw new RangeError(`region ${this.#regions.length} is not there`);
    }
  }

  get regions(): readonly Region[] {
    return this.#regions;
  }

  /** Maps regions that were added to the file since (store/pools/grow.ts). */
  look(): void {
    this.#mapTo(NODE_REGIONS_MAX);
  }

  #mapTo(count: number): void {
    while (this.#regions.length < count) {
      const region = this.#source.map(this.#regions.length);
      if (region === undefined || region.bytes < this.regionBytes) return;
      this.#regions.push(region);
    }
  }

  /** The region of a verb, if it exists. */
  #region(index: number): Region | undefined {
    if (index >= this.#regions.length) this.look();
    return this.#regions[index];
  }

  /**
   * Checks every verb from `at` to `end` before the first of them touches memory. It also loads a
   * word of every line that a READ will copy, so that the loads of all frames that arrived together
   * overlap. Returns the bytes of the results. Raises WireError and BeyondMemory.
   */
  inspect(i32: Int32Array, at: number, end: number): number {
    let results = 0;
    let word = at >> 2;
    const last = end >> 2;
    while (word < last) {
      const verb = i32[word];
      const next = this.#inspectReads(i32, word, last);
      if (next > word) {
        results += ((next - word) >> 1) * verbBytes(verb);
        word = next;
      } else {
        word = this.#inspectOther(i32, word, last);
        results += resultBytes(verbKind(verb), verbBytes(verb));
      }
    }
    return results;
  }

  /**
   * Inspects READs from `word` on that differ only in their offsets, as most do, up to the first
   * invalid one. Returns where the next verb begins.
   */
  #inspectReads(i32: Int32Array, word: number, last: number): number {
    const verb = i32[word];
    const bytes = verbBytes(verb);
    const region = this.#region(verbRegion(verb));
    const end = this.regionBytes - bytes;
    if (verbKind(verb) !== READ || (bytes & 7) !== 0 || region === undefined) return word;
    const isLong = bytes > UNIT_BYTES;
    const { i32: memory } = region;
    let touched = 0;
    let next = word;
    for (; next < last && i32[next] === verb; next += 2) {
      const offset = i32[next + 1] >>> 0;
      if (offset > end || (offset & 7) !== 0) break;
      touched ^= memory[offset >> 2];
      if (isLong) touched ^= touch(region, offset, bytes);
    }
    this.touched ^= touched;
    return next;
  }

  /** Checks a verb; returns where the next one begins. */
  #inspectOther(i32: Int32Array, word: number, last: number): number {
    const verb = i32[word];
    const kind = verbKind(verb);
    const bytes = verbBytes(verb);
    const request = requestBytes(kind, bytes);
    const next = word + 2 + (request >> 2);
    if (request < 0 || next > last) throw new WireError(`a verb of kind ${kind} does not fit`);
    const offset = i32[word + 1] >>> 0;
    if (kind !== WRITE && (offset & 7) !== 0) throw new WireError('an unaligned verb');
    if (kind === READ ? (bytes & 7) !== 0 : kind !== WRITE && bytes !== 8) {
      throw new WireError(`a verb of ${bytes} bytes`);
    }
    const region = this.#region(verbRegion(verb));
    if (region === undefined || offset + bytes > this.regionBytes) {
      throw new BeyondMemory(`verb beyond region ${verbRegion(verb)}: ${offset}`);
    }
    return next;
  }

  /** Executes inspected verbs in order, and writes their results from `into` on. */
  execute(input: Scratch, at: number, end: number, output: Scratch, into: number): void {
    const { i32 } = input;
    let result = into;
    let verbs = 0;
    for (let from = at; from < end; ) {
      const verb = i32[from >> 2];
      const kind = verbKind(verb);
      if (kind === READ) {
        const next = this.#reads(i32, from >> 2, end >> 2, output, result) << 2;
        verbs += (next - from) >> 3;
        result = this.#readTo;
        from = next;
        continue;
      }
      const bytes = verbBytes(verb);
      const offset = i32[(from >> 2) + 1];
      const region = this.#regions[verbRegion(verb)];
      from += 8;
      verbs++;
      this.changes++;
      this.#barrier?.();
      if (kind === WRITE) {
        writeWords(region, offset, input, from, bytes);
        this.#unfenced = true;
      } else {
        output.i64[result >> 3] = this.#atomic(kind, region.i64, offset >>> 3, input, from >> 3);
        this.#unfenced = false;
        result += 8;
      }
      from += requestBytes(kind, bytes);
    }
    this.verbs += verbs;
  }

  /**
   * Executes READs from `word` on that differ only in their offsets; with a barrier, only one.
   * Returns where the next verb begins, and sets `#readTo` to where its result goes.
   */
  #reads(i32: Int32Array, word: number, end: number, output: Scratch, into: number): number {
    if (this.#unfenced) this.#storeLoadFence();
    this.#barrier?.();
    const last = this.#barrier === undefined ? end : word + 2;
    const verb = i32[word];
    const bytes = verbBytes(verb);
    const region = this.#regions[verbRegion(verb)];
    const line = copyLine;
    const { f64: to } = output;
    const { f64: from } = region;
    let result = into;
    let next = word;
    if (bytes === UNIT_BYTES) {
      for (; next < last && i32[next] === verb; next += 2) {
        line(from, i32[next + 1] >>> 3, to, result >> 3);
        result += bytes;
      }
    } else {
      for (; next < last && i32[next] === verb; next += 2) {
        readWords(region, i32[next + 1], output, result, bytes);
        result += bytes;
      }
    }
    this.#readTo = result;
    return next;
  }

  #atomic(kind: number, words: BigInt64Array, index: number, { i64 }: Scratch, at: number): bigint {
    if (kind === CAS) return Atomics.compareExchange(words, index, i64[at], i64[at + 1]);
    if (kind === FAA) return Atomics.add(words, index, i64[at]);
    throw new WireError(`no verb of kind ${kind}`);
  }

  #storeLoadFence(): void {
    Atomics.add(this.#fence, 0, 0);
    this.#unfenced = false;
  }

  /** Whether the memory is unused: everything in it begins with a nonzero word. */
  get isBlank(): boolean {
    return Atomics.load(this.#regions[0].i64, 0) === 0n;
  }

  /** Whether the memory begins with these bytes, or is half erased. */
  isErasable(image: Uint8Array): boolean {
    const [{ u8, i64 }] = this.#regions;
    if (Atomics.load(i64, 0) === ERASING) return true;
    return Buffer.compare(u8.slice(0, image.length), image) === 0;
  }

  /**
   * Zeroes the memory from its end to its start, whose first word marks it as half erased. If the
   * node is killed in between, the memory is not a pool, and the next node treats it as blank.
   * `turn` lets other work run between two pieces.
   */
  async erase(turn: () => Promise<void>): Promise<void> {
    this.look();
    const [{ i64 }] = this.#regions;
    Atomics.store(i64, 0, ERASING);
    for (const { u8 } of this.#regions.toReversed()) {
      const bytes = Math.min(u8.length, this.regionBytes);
      for (let end = bytes; end > 0; end -= ERASE_BYTES) {
        const start = Math.max(end - ERASE_BYTES, u8 === this.#regions[0].u8 ? 8 : 0);
        clear(u8.subarray(start, end));
        await turn();
      }
    }
    Atomics.store(i64, 0, 0n);
  }

  /**
   * Writes `image` to the start of a blank memory. Returns what is there afterwards. The first word
   * is written last, so a process that maps the memory sees all of it or nothing.
   */
  initialise(image: Uint8Array): Uint8Array {
    const [{ u8, i64 }] = this.#regions;
    const first = new DataView(image.buffer, image.byteOffset).getBigInt64(0, true);
    if (Atomics.load(i64, 0) === 0n) {
      u8.set(image.subarray(8), 8);
      Atomics.compareExchange(i64, 0, 0n, first);
    }
    return u8.slice(0, image.length);
  }
}
