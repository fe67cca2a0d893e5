import { BLOCK_UNITS_MAX, blocksPerChunk, CHUNK_BYTES, stateMapBytes } from '../../pool/layout.ts';
import { CONTINUATION_UNITS } from '../../records/layout.ts';
import { UNIT_BYTES } from '../../verbs/index.ts';
import { inRange, powerInRange, techniquesOf } from '../substrates/parameters.ts';
import { FINGERPRINTS, mainBytes, mainEntries } from './segments/main-segment.ts';

/** Techniques of the paper, in the order of the bits of `SepHashShape.without`. */
export const SEPHASH_TECHNIQUES = [
  'append', // the order of entries reveals rival writes; else a write reads again to find them
  'signs', // a merge empties the CurSegment by flipping its sign; else it allocates a new one
  'filter', // CurSegments have a fingerprint filter
  'cache', // clients cache where a MainSegment has each fingerprint's entries
  'fpTable', // … as the FPTable; else as record points
  'depthBits', // splits trust the depth bits of the entries; else they read every record
  'zeroWait', // the filter's mark is set in the entry's doorbell; else in a round trip before it
] as const;
export type SepHashTechnique = (typeof SEPHASH_TECHNIQUES)[number];

/** Parameters of a SepHash index; kept in the catalog. */
export interface SepHashShape {
  /** Bytes of a CurSegment's entries. */
  segmentBytes: number;
  /** A MainSegment with more entries than this many CurSegments hold is split. */
  ratio: number;
  /** Entries that an append reads to find the first empty one; 0 reads all of them. */
  window: number;
  initialDepth: number;
  maxDepth: number;
  /** Bit set of the techniques that this index leaves out. */
  without: number;
  seed: number;
}

export const SHAPE_NAMES = [
  'segmentBytes',
  'ratio',
  'window',
  'initialDepth',
  'maxDepth',
  'without',
  'seed',
] as const;

const SLOTS_UNITS_MIN = 5;
/** The paper's are 128 and a ratio of 8; smaller ones are for tests, which want many merges. */
const SEGMENT_BYTES_MIN = 16;
const RATIO_MIN = 1;
const SEGMENT_BYTES_MAX = 2048;
const DEPTH_MAX = 24;

export class SepHashGeometry {
  readonly shape: SepHashShape;
  /** Entries of a CurSegment. */
  readonly slots: number;
  readonly slotsBytes: number;
  /** Size class of the block of a CurSegment's entries. */
  readonly slotsUnits: number;
  /** Marks of the filter in a MainSegment. */
  readonly marks: number;
  readonly mainSizes: MainSizes;
  /** Block sizes that only the index itself uses. */
  readonly tableUnits: readonly number[];

  constructor(shape: SepHashShape) {
    this.shape = shape;
    this.slotsBytes = shape.segmentBytes;
    this.slots = shape.segmentBytes / 8;
    // Odd and, from 9 on, no size class of records, so that statistics can tell them apart.
    this.slotsUnits = Math.max(SLOTS_UNITS_MIN, Math.ceil(shape.segmentBytes / UNIT_BYTES) + 1);
    const { filter } = techniquesOf(SEPHASH_TECHNIQUES, shape.without);
    this.marks = filter ? marksFor(this.slots, shape.ratio) : 0;
    this.mainSizes = new MainSizes(shape.ratio * this.slots, this.slots, this.marks);
    this.tableUnits = this.#ownUnits();
  }

  /** Entries beyond which a MainSegment is split. */
  get mainLimit(): number {
    return this.mainSizes.limit;
  }

  /**
   * Size class of a MainSegment's block. It has room for one more CurSegment of new keys, so that
   * in a full pool the next merge can go back into the same block (compact.ts).
   */
  mainUnits(kept: number, dropped: number): number {
    return this.mainSizes.unitsFor(kept + Math.max(dropped, this.slots));
  }

  /** Whether a block with `kept` entries has room for one more CurSegment of new keys. */
  hasRoom(units: number, kept: number): boolean {
    return units >= this.mainUnits(kept, 0);
  }

  /** Size of the spare place (compact.ts), where any MainSegment must fit. */
  get spareBytes(): number {
    return UNIT_BYTES * this.mainSizes.unitsFor(this.#entriesMax);
  }

  /** Most entries of a MainSegment that fits both the spare place and its block. */
  homeEntries(units: number): number {
    return mainEntries(Math.min(UNIT_BYTES * units, this.spareBytes)) - this.marks;
  }

  /** Whether a MainSegment's entries of this fingerprint come behind a mark. */
  hasMark(fingerprint: number): boolean {
    return this.marks > 0 && this.markedFingerprint(fingerprint) === fingerprint;
  }

  /** The first of the fingerprints that share a mark with this one. */
  markedFingerprint(fingerprint: number): number {
    return this.marks === 0 ? fingerprint : fingerprint & -(FINGERPRINTS / this.marks);
  }

  /** Most entries of a MainSegment: the limit for a split, and room for what merges add to it. */
  get #entriesMax(): number {
    return this.mainLimit + 3 * this.slots;
  }

  #ownUnits(): number[] {
    const units = new Set<number>();
    if (this.slotsUnits > 8) units.add(this.slotsUnits);
    for (const size of this.mainSizes.classes(this.#entriesMax)) units.add(size);
    return [...units];
  }
}

export function sepHashShape(
  wishes: Readonly<Record<string, number | undefined>>,
  poolBytes: number,
  seed: number,
): SepHashShape {
  const segmentBytes = powerInRange(
    'segmentBytes',
    wishes.segmentBytes ?? 1024,
    SEGMENT_BYTES_MIN,
    SEGMENT_BYTES_MAX,
  );
  const ratio = inRange('ratio', wishes.ratio ?? 64, RATIO_MIN, 64);
  // One level more than a pool full of half-empty MainSegments could use.
  const segments = poolBytes / (4 * ratio * segmentBytes);
  const reachable = Math.min(DEPTH_MAX, Math.max(4, Math.ceil(Math.log2(segments)) + 1));
  const maxDepth = inRange('maxDepth', wishes.maxDepth ?? reachable, 0, DEPTH_MAX);
  const initialDepth = Math.min(1, maxDepth);
  return {
    segmentBytes,
    ratio,
    window: inRange('window', wishes.window ?? Math.min(8, segmentBytes / 8), 0, segmentBytes / 8),
    initialDepth: inRange('initialDepth', wishes.initialDepth ?? initialDepth, 0, maxDepth),
    maxDepth,
    without: inRange('without', wishes.without ?? 0, 0, 2 ** SEPHASH_TECHNIQUES.length - 1),
    seed,
  };
}

/** A MainSegment with a mark for this many of its entries loses a sixteenth of them. */
const ENTRIES_PER_MARK = 16;

/**
 * With the paper's CurSegment there is a mark for each fingerprint. A smaller one has at least a
 * mark for each of its entries, and more if its MainSegments are long enough: with two,
 * MainSegments of 128 entries took one more of 4 MiB's 16 chunks.
 */
function marksFor(slots: number, ratio: number): number {
  if (slots >= 128) return FINGERPRINTS;
  const more = 2 ** Math.floor(Math.log2(Math.max(1, ratio / ENTRIES_PER_MARK)));
  return Math.min(FINGERPRINTS, slots * more);
}

/** Above half a full MainSegment, sizes are multiples of its full size divided by this. */
const STEPS = 8;
const UNITS_MIN = 9;
/** The limit may shrink by this share if a chunk then holds one more block. */
const LIMIT_SHARE = 1 / 16;

/**
 * Block sizes of MainSegments. They are few, because each class takes chunks of its own. Above half
 * a full MainSegment they go up by eighths of it. Below, each is a quarter of the next: only young
 * segments are so small. Each size leaves no room for another block in its chunks. All are odd, and
 * none is the size of long records' blocks, so that statistics can tell them apart.
 */
class MainSizes {
  /** Entries beyond which a MainSegment is split. */
  readonly limit: number;
  readonly #full: number;
  readonly #marks: number;

  /**
   * `wanted`: entries of a full MainSegment; its block has room for `more` and the marks besides.
   */
  constructor(wanted: number, more: number, marks: number) {
    this.limit = fillingChunks(wanted + more + marks) - more - marks;
    this.#marks = marks;
    this.#full = unitsOf(this.limit + more + marks);
  }

  /** Size class of a block for this many entries. */
  unitsFor(entries: number): number {
    const units = unitsOf(entries + this.#marks);
    const half = Math.ceil(this.#full / 2);
    const step = Math.max(1, this.#full / STEPS);
    if (units > half) return stretched(Math.ceil(units / step) * step);
    let size = half;
    while (size / 4 >= Math.max(units, UNITS_MIN)) size = Math.floor(size / 4);
    return stretched(size);
  }

  /** All classes, for MainSegments of at most `entriesMax` entries. */
  classes(entriesMax: number): number[] {
    const classes = new Set<number>();
    for (let entries = 0; entries <= entriesMax; entries += 8) classes.add(this.unitsFor(entries));
    return [...classes.add(this.unitsFor(entriesMax))];
  }
}

/** The limit, or a little less if a chunk then holds one more block of a full MainSegment. */
function fillingChunks(wanted: number): number {
  const blocks = blocksPerChunk(Math.min(unitsOf(wanted), BLOCK_UNITS_MAX));
  const fitting = mainEntries(largest(blocks + 1) * UNIT_BYTES);
  return fitting < wanted && fitting >= wanted * (1 - LIMIT_SHARE) ? fitting : wanted;
}

function unitsOf(entries: number): number {
  return Math.ceil(mainBytes(entries) / UNIT_BYTES);
}

/** The largest odd size with as many blocks to a chunk. */
function stretched(units: number): number {
  const odd = Math.min(Math.max(UNITS_MIN, Math.ceil(units)) | 1, BLOCK_UNITS_MAX);
  return Math.max(odd, largest(blocksPerChunk(odd)));
}

/** The largest size of a MainSegment's block with `blocks` blocks to a chunk. */
function largest(blocks: number): number {
  const units = Math.floor((CHUNK_BYTES - stateMapBytes(blocks)) / blocks / UNIT_BYTES);
  const odd = units % 2 === 1 ? units : units - 1;
  return odd === CONTINUATION_UNITS ? odd - 2 : odd;
}
