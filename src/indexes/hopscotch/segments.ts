import { hasCode, invariant } from '../../errors.ts';
import type { Operation } from '../../verbs/index.ts';
import { nextSuffix } from '../substrates/directory.ts';
import { IMAGE_AT, type LeafRequest } from '../substrates/leaf/leaf-request.ts';
import { readPicture } from '../substrates/leaf/picture.ts';
import { depthIn } from './bounds.ts';
import type { HopscotchTable } from './table.ts';

/** The keys whose hashes end with `suffix`, of `depth` bits, and what comes behind them. */
export interface Position {
  suffix: number;
  depth: number;
}

/**
 * Goes through the segments in the order of their suffixes' reversed bits, so that a segment that
 * is split meanwhile is still one run of the order: every key has one segment to be met in.
 */
export class SegmentWalk {
  readonly #table: HopscotchTable;
  /** The last segment that was read. */
  readonly picture: LeafRequest;
  /** Undefined at the end. */
  position: Position | undefined;

  constructor(table: HopscotchTable, position: Position = { suffix: 0, depth: 0 }) {
    this.#table = table;
    this.picture = table.newRequest();
    this.position = position;
  }

  /** Reads the next segment as it is at one moment; only before the end. */
  *next(): Operation<LeafRequest> {
    this.picture.hash.h1 = (this.position as Position).suffix;
    yield* readPicture(this.#table, this.picture);
    return this.#pass();
  }

  /** The next segment for figures: one that does not stand still is as it was read last. */
  *nextAsItIs(): Operation<LeafRequest> {
    this.picture.hash.h1 = (this.position as Position).suffix;
    try {
      yield* readPicture(this.#table, this.picture);
    } catch (error) {
      if (!hasCode(error, 'SW_CONTENTION')) throw error;
    }
    return this.#pass();
  }

  #pass(): LeafRequest {
    const { picture } = this;
    const { suffix } = this.position as Position;
    const depth = depthIn(picture.words, IMAGE_AT);
    const isDepth = depth <= this.#table.directory.maxDepth;
    invariant(isDepth, `the segment at ${picture.leaf} has a depth of ${depth}`);
    const next = nextSuffix(suffix & (2 ** depth - 1), depth);
    this.position = next === undefined ? undefined : { suffix: next, depth };
    return picture;
  }
}
