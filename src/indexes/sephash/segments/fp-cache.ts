import { FINGERPRINTS } from './main-segment.ts';

/**
 * A client's table for finding the entries of a fingerprint in a MainSegment (section 4.4.2): they
 * are in [start, end), behind their mark if they have one (filter.ts). Entries and marks of a
 * MainSegment never move, so it is valid while the segment's metadata word is unchanged.
 */
export interface FpCache {
  readonly bytes: number;
  /** Whether the range has no other entries. */
  readonly isExact: boolean;
  start(fingerprint: number): number;
  end(fingerprint: number): number;
}

/** No cache: a search reads all entries. */
export class WholeMain implements FpCache {
  readonly bytes = 0;
  readonly isExact = false;
  readonly #count: number;

  constructor(count: number) {
    this.#count = count;
  }

  start(): number {
    return 0;
  }

  end(): number {
    return this.#count;
  }
}

/** The FPTable itself. */
export class FpTable implements FpCache {
  readonly isExact = true;
  readonly #ends: Uint16Array;

  constructor(ends: Uint16Array) {
    this.#ends = ends;
  }

  get bytes(): number {
    return this.#ends.byteLength;
  }

  start(fingerprint: number): number {
    return fingerprint === 0 ? 0 : this.#ends[fingerprint - 1];
  }

  end(fingerprint: number): number {
    return this.#ends[fingerprint];
  }
}

/** One line of entries: predicting better than that would save nothing. */
const TOLERANCE_MIN = 8;

/**
 * The FPTable approximated by lines of one slope: the entries of fingerprint i start near i *
 * average + delta. Where that is off by half an average, a record point sets another delta. The
 * paper has 32 points with an overflow; here there are as many as needed. Every start is predicted
 * within the tolerance, so a range of one average and two tolerances is never too short.
 */
export class RecordPoints implements FpCache {
  readonly isExact = false;
  readonly #count: number;
  readonly #average: number;
  readonly #tolerance: number;
  readonly #fingerprints: Uint8Array;
  readonly #deltas: Int16Array;

  constructor(ends: Uint16Array) {
    this.#count = ends[FINGERPRINTS - 1];
    this.#average = this.#count / FINGERPRINTS;
    this.#tolerance = Math.max(TOLERANCE_MIN, this.#average / 2);
    const fingerprints: number[] = [];
    const deltas: number[] = [];
    let delta = 0;
    for (let fp = 1; fp < FINGERPRINTS; fp++) {
      const straight = this.#average * fp;
      const start = ends[fp - 1];
      if (Math.abs(straight + delta - start) < this.#tolerance) continue;
      delta = Math.round(start - straight);
      fingerprints.push(fp);
      deltas.push(delta);
    }
    this.#fingerprints = Uint8Array.from(fingerprints);
    this.#deltas = Int16Array.from(deltas);
  }

  get points(): number {
    return this.#fingerprints.length;
  }

  /** A fingerprint of 8 and a delta of 16 bits for each point, the count, and the overflow. */
  get bytes(): number {
    return 3 * this.points + 4;
  }

  start(fingerprint: number): number {
    return Math.max(0, Math.floor(this.#predict(fingerprint) - this.#tolerance));
  }

  end(fingerprint: number): number {
    if (fingerprint === FINGERPRINTS - 1) return this.#count;
    return Math.min(this.#count, Math.ceil(this.#predict(fingerprint + 1) + this.#tolerance));
  }

  /** Predicts by the last record point at or before the fingerprint. */
  #predict(fingerprint: number): number {
    let low = 0;
    let high = this.#fingerprints.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#fingerprints[middle] <= fingerprint) low = middle + 1;
      else high = middle;
    }
    return this.#average * fingerprint + (low === 0 ? 0 : this.#deltas[low - 1]);
  }
}
