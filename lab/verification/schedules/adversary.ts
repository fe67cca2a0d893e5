import { createHash } from 'node:crypto';
import { MemorySource } from '../../../src/fabrics/shared/memory-source.ts';
import type { Region } from '../../../src/fabrics/shared/region.ts';
import {
  type Address,
  type Batch,
  CAS,
  FAA,
  type Fabric,
  offsetOf,
  PAUSE,
  READ,
  regionOf,
  TrafficCounters,
  WRITE,
} from '../../../src/verbs/index.ts';

/** Observes every access to the memory, as the reclamation oracle does. */
export interface AccessObserver {
  /** Reports an access to this many aligned words, the first at `address`. */
  onAccess(client: number, kind: number, address: Address, words: number): void;
}

/** The pool's bytes. Everything runs in one thread, so each piece of a verb is atomic. */
export class AdversaryMemory {
  readonly source: MemorySource;
  readonly #regions: Region[];
  /** By region and page: whether the page may contain anything but zeros. */
  readonly #dirty: Uint8Array[];
  observer: AccessObserver | undefined;

  constructor(regions: number, regionBytes: number) {
    this.source = MemorySource.allocate(regions, regionBytes);
    this.#regions = Array.from({ length: regions }, (_, i) => this.source.map(i) as Region);
    this.#dirty = this.#regions.map(() => new Uint8Array(Math.ceil(regionBytes / PAGE)));
  }

  /** Zeroes the pages that were written. Allocating for each of a million runs would be slow. */
  reset(): void {
    this.observer = undefined;
    this.#dirty.forEach((dirty, region) => {
      for (let page = 0; page < dirty.length; page++) {
        if (dirty[page] === 0) continue;
        this.#regions[region].u8.fill(0, page * PAGE, (page + 1) * PAGE);
        dirty[page] = 0;
      }
    });
  }

  /** A hash of the written pages: equal for equal bytes, if the same pages were written. */
  digest(): string {
    const hash = createHash('sha1');
    this.#dirty.forEach((dirty, region) => {
      const { u8 } = this.#regions[region];
      for (let page = 0; page < dirty.length; page++) {
        if (dirty[page] === 0) continue;
        hash.update(`${region} ${page}`).update(u8.subarray(page * PAGE, (page + 1) * PAGE));
      }
    });
    return hash.digest('base64');
  }

  /** Must be called before bytes change. */
  touch(address: Address, bytes: number): void {
    const dirty = this.#dirty[regionOf(address)];
    const offset = offsetOf(address);
    const end = Math.floor((offset + bytes - 1) / PAGE);
    for (let page = Math.floor(offset / PAGE); page <= end; page++) dirty[page] = 1;
  }

  region(index: number): Region {
    const region = this.#regions[index];
    if (region === undefined) throw new Error(`a verb names region ${index}, which does not exist`);
    return region;
  }

  put(address: Address, bytes: Uint8Array): void {
    this.touch(address, bytes.length);
    this.region(regionOf(address)).u8.set(bytes, offsetOf(address));
  }

  word(address: Address): bigint {
    return this.region(regionOf(address)).i64[offsetOf(address) >>> 3];
  }

  fill(address: Address, bytes: number, value: number): void {
    this.touch(address, bytes);
    const offset = offsetOf(address);
    this.region(regionOf(address)).u8.fill(value, offset, offset + bytes);
  }
}

const PAGE = 4096;
export const WORD = 8;
/** A piece size that leaves verbs in one piece. */
export const WHOLE = 2 ** 30;

/**
 * The fabric contract at its worst. Nothing beyond an aligned 8-byte word is atomic, the words of
 * one READ or WRITE happen in any order, and a WRITE may overtake its batch's READs and atomics. A
 * scheduler begins an execution for a batch and takes pieces of it whenever it likes, with other
 * clients' pieces in between. `execute` is for what may run without interleaving (joining).
 */
export class AdversaryFabric implements Fabric {
  readonly traffic = new TrafficCounters();
  readonly memory: AdversaryMemory;
  readonly client: number;

  constructor(memory: AdversaryMemory, client: number) {
    this.memory = memory;
    this.client = client;
  }

  execute(batch: Batch): void {
    for (let row = 0; row < batch.length; row++) {
      this.check(batch, row);
      this.perform(batch, row, 0, batch.bytes[row]);
    }
  }

  check({ kind: kinds, address, bytes }: Batch, row: number): void {
    const kind = kinds[row];
    if (kind >= PAUSE) return;
    const offset = offsetOf(address[row]);
    if (offset + bytes[row] > this.memory.region(regionOf(address[row])).bytes) {
      throw new Error(`a verb reaches beyond its region: offset ${offset}, ${bytes[row]} bytes`);
    }
    if ((kind === CAS || kind === FAA) && offset % WORD !== 0) throw new Error('unaligned atomic');
    if ((kind === READ || kind === WRITE) && bytes[row] === 0) {
      throw new Error('a READ or WRITE of no bytes');
    }
  }

  /** Performs a piece of a verb: `bytes` of its bytes from `at` on. */
  perform(batch: Batch, row: number, at: number, bytes: number): void {
    const { memory } = this;
    const kind = batch.kind[row];
    if (kind >= PAUSE) return;
    const address = batch.address[row];
    const region = memory.region(regionOf(address));
    const offset = offsetOf(address) + at;
    const local = batch.offset[row] + at;
    const scratch = batch.scratch[row];
    const ahead = offset % WORD;
    const words = Math.ceil((ahead + bytes) / WORD);
    memory.observer?.onAccess(this.client, kind, address + at - ahead, words);
    if (kind === READ) {
      scratch.u8.set(region.u8.subarray(offset, offset + bytes), local);
      return;
    }
    memory.touch(address + at, bytes);
    if (kind === WRITE) {
      region.u8.set(scratch.u8.subarray(local, local + bytes), offset);
      return;
    }
    const { i64 } = scratch;
    const word = local >> 3;
    const old = region.i64[offset >>> 3];
    if (kind === CAS) {
      if (old === i64[word]) region.i64[offset >>> 3] = i64[word + 1];
      i64[word + 2] = old;
    } else if (kind === FAA) {
      region.i64[offset >>> 3] = BigInt.asIntN(64, old + i64[word]);
      i64[word + 1] = old;
    }
  }

  window(address: Address, bytes: number): Uint8Array {
    const offset = offsetOf(address);
    return this.memory.region(regionOf(address)).u8.subarray(offset, offset + bytes);
  }
}

/**
 * A batch in flight, cut into pieces that are atomic: words, lines or whole verbs. `cut` returns
 * the size of a piece, given the bytes of a verb. A scheduler performs the pieces one by one.
 */
export class Execution {
  readonly #fabric: AdversaryFabric;
  readonly #batch: Batch;
  /** By row: the pieces not yet performed, as [start, bytes] pairs; [] when done. */
  readonly #pieces: number[][] = [];
  #left: number;
  /** Whether the last piece was a pause or a wait. */
  paused = false;

  constructor(fabric: AdversaryFabric, batch: Batch, cut: (bytes: number) => number) {
    this.#fabric = fabric;
    this.#batch = batch;
    for (let row = 0; row < batch.length; row++) this.#pieces.push(this.#cut(row, cut));
    this.#left = batch.length;
  }

  get finished(): boolean {
    return this.#left === 0;
  }

  #cut(row: number, cut: (bytes: number) => number): number[] {
    this.#fabric.check(this.#batch, row);
    const kind = this.#batch.kind[row];
    const bytes = this.#batch.bytes[row];
    if (kind >= PAUSE) return [0, 0];
    if (kind !== READ && kind !== WRITE) return [0, WORD];
    const offset = offsetOf(this.#batch.address[row]);
    const size = cut(bytes);
    const pieces: number[] = [];
    for (let at = 0; at < bytes; ) {
      const end = Math.min(bytes, (Math.floor((offset + at) / size) + 1) * size - offset);
      pieces.push(at, end - at);
      at = end;
    }
    return pieces;
  }

  /**
   * The rows whose pieces may be performed now: the first unfinished verb, and the next unfinished
   * WRITE if only READs and atomics come before it.
   */
  openRows(): number[] {
    const { kind, length } = this.#batch;
    const rows: number[] = [];
    for (let row = 0; row < length; row++) {
      if (this.#pieces[row].length === 0) continue;
      if (rows.length === 0 || kind[row] === WRITE) rows.push(row);
      if (kind[row] === WRITE || kind[row] === PAUSE) break;
    }
    return rows;
  }

  /** The pieces of a row not yet performed, as [start, bytes] pairs. */
  pieces(row: number): readonly number[] {
    return this.#pieces[row];
  }

  /** Performs piece number `choice` of a row. */
  perform(row: number, choice: number): void {
    const pieces = this.#pieces[row];
    const at = pieces[2 * choice];
    const bytes = pieces[2 * choice + 1];
    const last = pieces.length - 2;
    pieces[2 * choice] = pieces[last];
    pieces[2 * choice + 1] = pieces[last + 1];
    pieces.length = last;
    if (last === 0) this.#left--;
    this.paused = this.#batch.kind[row] >= PAUSE;
    this.#fabric.perform(this.#batch, row, at, bytes);
  }
}
