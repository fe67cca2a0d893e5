import {
  BLOCK_UNITS_MAX,
  blocksPerChunk,
  CHUNK_BYTES,
  stateMapBytes,
} from '../../../pool/layout.ts';
import { CONTINUATION_UNITS } from '../../../records/layout.ts';
import { UNIT_BYTES } from '../../../verbs/index.ts';
import { MAIN_HEADER_BYTES, mainBytes } from './main-segment.ts';

/** Size classes between half a full MainSegment and a full one, where all but young ones are. */
const STEPS = 8;
const UNITS_MIN = 9;
/** A full MainSegment may be made smaller by this share for one more block in each chunk. */
const LIMIT_SHARE = 1 / 32;

/**
 * Sizes of the blocks of MainSegments. Each class takes chunks of its own, so they are few: eighths
 * of a full MainSegment from its half on, and below that a quarter each time, because a segment is
 * so small only until its first splits. Each fills its chunks to the end. All are odd and none is
 * that of long records: statistics tell tables from records.
 */
export class MainSizes {
  /** Entries beyond which a MainSegment is split. */
  readonly limit: number;
  readonly #full: number;

  /** `wanted`: entries that a full MainSegment should have; a block has room for `more`. */
  constructor(wanted: number, more = 0) {
    this.limit = fillingChunks(wanted + more) - more;
    this.#full = unitsOf(this.limit + more);
  }

  /** Size class of a block for so many entries. */
  unitsFor(entries: number): number {
    const units = unitsOf(entries);
    const half = Math.ceil(this.#full / 2);
    const step = Math.max(1, this.#full / STEPS);
    if (units > half) return stretched(Math.ceil(units / step) * step);
    let size = half;
    while (size / 4 >= Math.max(units, UNITS_MIN)) size = Math.floor(size / 4);
    return stretched(size);
  }

  /** All of them, for MainSegments of at most so many entries. */
  classes(entriesMax: number): number[] {
    const classes = new Set<number>();
    for (let entries = 0; entries <= entriesMax; entries += 8) classes.add(this.unitsFor(entries));
    return [...classes.add(this.unitsFor(entriesMax))];
  }
}

/** The limit, or a little less if a chunk then holds one more block of a full MainSegment. */
function fillingChunks(wanted: number): number {
  const blocks = blocksPerChunk(Math.min(unitsOf(wanted), BLOCK_UNITS_MAX));
  const fitting = Math.floor((largest(blocks + 1) * UNIT_BYTES - MAIN_HEADER_BYTES) / 8);
  return fitting < wanted && fitting >= wanted * (1 - LIMIT_SHARE) ? fitting : wanted;
}

function unitsOf(entries: number): number {
  return Math.ceil(mainBytes(entries) / UNIT_BYTES);
}

/** The largest odd size of which a chunk holds as many blocks. */
function stretched(units: number): number {
  const odd = Math.min(Math.max(UNITS_MIN, Math.ceil(units)) | 1, BLOCK_UNITS_MAX);
  return Math.max(odd, largest(blocksPerChunk(odd)));
}

/** The largest size of a MainSegment's block of which a chunk holds so many. */
function largest(blocks: number): number {
  const units = Math.floor((CHUNK_BYTES - stateMapBytes(blocks)) / blocks / UNIT_BYTES);
  const odd = units % 2 === 1 ? units : units - 1;
  return odd === CONTINUATION_UNITS ? odd - 2 : odd;
}
