import { type Operation, UNIT_BYTES } from '../../verbs/index.ts';
import type { UnwaitedWrites } from '../unwaited-writes.ts';

/**
 * Words of a client's row that no protocol reads: what the client has done so far, and how much
 * memory it has claimed ahead or retired. `TOLD_AT` is the wall-clock time in milliseconds at which
 * the client last published them; 0 if it never has.
 */
const TOLD_AT = 48;
/** One byte each for p50, p90, p99 and p99.9 of reads, then of writes; see `latencyCode`. */
const LATENCIES_AT = 56;
const READS_AND_MISSES_AT = 104;
const WRITES_AND_SCANNED_AT = 112;
/** Units claimed ahead, and units waiting for an epoch, 32 bits each. */
const HELD_AT = 120;
const HELD_MAX = 2 ** 32 - 1;

const QUANTILES = [0.5, 0.9, 0.99, 0.999] as const;

/** Counts modulo 2^32. The difference of two readings is right even after an overflow. */
const READS = 0;
const MISSES = 1;
const WRITES = 2;
const SCANNED = 3;

/** How often clients of stores publish their figures, in milliseconds. */
export const TELL_EVERY_MS = 1000;
/**
 * One operation in this many is timed, because reading the clock costs a tenth of a search in
 * shared memory. A prime, so that it does not fall in step with quiescent points.
 */
const TIMED_EVERY = 31;
/** Percentiles cover two windows, each of this many samples or this long at most. */
const SAMPLES_MAX = 2000;
const WINDOW_MS = 10_000;

/** When an operation began, in milliseconds; 0 when it is not timed. */
export interface OperationTiming {
  startedAt: number;
  isWrite: boolean;
}

/** Latencies in microseconds; each is 0 without a sample. */
export interface Percentiles {
  p50: number;
  p90: number;
  p99: number;
  p999: number;
}

/** A client's figures, as published in its row. */
export interface ClientFigures {
  /** Milliseconds since 1970, by the client's clock. */
  toldAt: number;
  /** Keys looked up, and how many of them were absent; modulo 2^32. */
  reads: number;
  misses: number;
  /** Operations that write or remove, whether or not they stored anything; modulo 2^32. */
  writes: number;
  /** Records visited by walks and scans; modulo 2^32. */
  scanned: number;
  /** Bytes of blocks that it has claimed but not used yet. */
  claimed: number;
  /** Bytes of retired blocks and spans that are waiting for an epoch. */
  waiting: number;
  /** Latencies of recent single-key operations, usually of the 10 to 20 seconds before `toldAt`. */
  read: Percentiles;
  write: Percentiles;
}

/**
 * Counts a client's operations, times some of them, and publishes the figures in the client's row,
 * with WRITEs that no operation waits for, at most once in `tellEveryMs`. An operation costs two
 * additions and no verb.
 */
export class Meter {
  /** Infinity for clients that publish nothing, such as those of simulations. */
  tellEveryMs = Number.POSITIVE_INFINITY;
  /** One operation in this many is timed; 1 if each takes a round trip. */
  timedEvery = TIMED_EVERY;
  readonly #counts = new Uint32Array(4);
  readonly #words = new Int32Array(this.#counts.buffer);
  readonly #read = new RecentLatencies();
  readonly #write = new RecentLatencies();
  #untilTimed = 1;
  #hasNews = false;
  #toldAt = performance.now();
  #claimedUnits = 0;
  #waitingUnits = 0;

  beginRead(timing: OperationTiming): void {
    this.#counts[READS]++;
    this.#begin(timing, false);
  }

  beginWrite(timing: OperationTiming): void {
    this.#counts[WRITES]++;
    this.#begin(timing, true);
  }

  #begin(timing: OperationTiming, isWrite: boolean): void {
    this.#hasNews = true;
    if (--this.#untilTimed > 0) return;
    this.#untilTimed = this.timedEvery;
    timing.startedAt = performance.now();
    timing.isWrite = isWrite;
  }

  /** Call when a timed operation has ended. */
  end(timing: OperationTiming): void {
    const latencies = timing.isWrite ? this.#write : this.#read;
    latencies.add(1000 * (performance.now() - timing.startedAt));
    timing.startedAt = 0;
  }

  /** Counts searches that are not timed one by one. */
  countReads(count: number): void {
    this.#counts[READS] += count;
    this.#hasNews = true;
  }

  countMiss(): void {
    this.#counts[MISSES]++;
  }

  countScanned(count: number): void {
    this.#counts[SCANNED] += count;
    this.#hasNews = true;
  }

  /** Notes how much memory the client has claimed ahead, and how much waits for an epoch. */
  noteHeld(claimedUnits: number, waitingUnits: number): void {
    if (claimedUnits === this.#claimedUnits && waitingUnits === this.#waitingUnits) return;
    this.#claimedUnits = claimedUnits;
    this.#waitingUnits = waitingUnits;
    this.#hasNews = true;
  }

  /** Milliseconds until the figures are due; Infinity if nothing has changed. */
  get dueInMs(): number {
    if (!this.#hasNews) return Number.POSITIVE_INFINITY;
    return this.#toldAt + this.tellEveryMs - performance.now();
  }

  /** Writes the figures into the row, the time last. */
  *tell(unwaited: UnwaitedWrites, row: number): Operation<void> {
    this.#hasNews = false;
    this.#toldAt = performance.now();
    const [reads, misses, writes, scanned] = this.#words;
    yield* unwaited.word(row + READS_AND_MISSES_AT, reads, misses);
    yield* unwaited.word(row + WRITES_AND_SCANNED_AT, writes, scanned);
    const held = [this.#claimedUnits, this.#waitingUnits].map((units) => Math.min(units, HELD_MAX));
    yield* unwaited.word(row + HELD_AT, held[0], held[1]);
    yield* unwaited.word(row + LATENCIES_AT, this.#read.digest(), this.#write.digest());
    const [low, high] = new Int32Array(new Float64Array([Date.now()]).buffer);
    yield* unwaited.word(row + TOLD_AT, low, high);
  }
}

/** Latencies of the current window and of the one before it. */
class RecentLatencies {
  #current = new Uint32Array(LATENCY_CODES);
  #former = new Uint32Array(LATENCY_CODES);
  #samples = 0;
  #since = performance.now();

  add(microseconds: number): void {
    this.#current[latencyCode(microseconds)]++;
    if (++this.#samples >= SAMPLES_MAX) this.#turn();
  }

  #turn(): void {
    [this.#current, this.#former] = [this.#former.fill(0), this.#current];
    this.#samples = 0;
    this.#since = performance.now();
  }

  /** The quantiles, one byte each. */
  digest(): number {
    const counts = this.#current.map((count, code) => count + this.#former[code]);
    const total = counts.reduce((sum, count) => sum + count, 0);
    if (performance.now() - this.#since > WINDOW_MS) this.#turn();
    if (total === 0) return 0;
    return QUANTILES.reduce((word, share, i) => {
      let below = 0;
      const code = counts.findIndex((count) => {
        below += count;
        return below >= share * total;
      });
      return word | (code << (8 * i));
    }, 0);
  }
}

/** Reads the row that begins at `at`; undefined if its client has published nothing. */
export function figuresIn(row: DataView, at: number): ClientFigures | undefined {
  const toldAt = row.getFloat64(at + TOLD_AT, true);
  if (!(toldAt > 0 && toldAt < Number.MAX_SAFE_INTEGER)) return undefined;
  const count = (from: number) => row.getUint32(at + from, true);
  const percentiles = (from: number): Percentiles => {
    const [p50, p90, p99, p999] = QUANTILES.map((_, i) => latencyOf(row.getUint8(at + from + i)));
    return { p50, p90, p99, p999 };
  };
  return {
    toldAt,
    reads: count(READS_AND_MISSES_AT),
    misses: count(READS_AND_MISSES_AT + 4),
    writes: count(WRITES_AND_SCANNED_AT),
    scanned: count(WRITES_AND_SCANNED_AT + 4),
    claimed: count(HELD_AT) * UNIT_BYTES,
    waiting: count(HELD_AT + 4) * UNIT_BYTES,
    read: percentiles(LATENCIES_AT),
    write: percentiles(LATENCIES_AT + 4),
  };
}

/**
 * Number of byte codes for latencies: 8 steps for each doubling, from 0.05 microseconds to 3
 * minutes, each 9 % above the one before. Code 0 means no sample.
 */
export const LATENCY_CODES = 256;

const STEPS_PER_DOUBLING = 8;
const LEAST = 0.05;

/** The code of a latency, clamped to the range. */
export function latencyCode(microseconds: number): number {
  const steps = Math.floor(STEPS_PER_DOUBLING * Math.log2(Math.max(LEAST, microseconds) / LEAST));
  return Math.min(LATENCY_CODES - 1, 1 + steps);
}

/** The middle of a code's interval, in microseconds. */
export function latencyOf(code: number): number {
  return code === 0 ? 0 : LEAST * 2 ** ((code - 0.5) / STEPS_PER_DOUBLING);
}
