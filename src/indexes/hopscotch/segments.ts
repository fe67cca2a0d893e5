import { Batch, type Operation, Scratch, setWord } from '../../verbs/index.ts';
import { addressOfLink, depthOfLink } from '../chime/link.ts';
import { isInUse, type Link, replacementOf, type Visit } from '../chime/node-io.ts';
import { nextSuffix } from '../substrates/suffix-order.ts';
import { halfFor, isFork } from './fork.ts';
import type { HopscotchTable } from './table.ts';

/** The keys whose hashes end with `suffix`, of `depth` bits, and what comes behind them. */
export interface Position {
  suffix: number;
  depth: number;
}

/** A segment as it was at one time. */
export interface Picture {
  segment: Visit;
  /** What had been replaced by then, and still stood on the way to it. */
  replaced: Link[];
}

/**
 * Goes through the segments in the order of their suffixes' reversed bits, so that a segment that
 * is split meanwhile is still one run of the order: every key has one segment to be met in.
 */
export class SegmentWalk {
  readonly #table: HopscotchTable;
  /** Undefined at the end. */
  position: Position | undefined;

  constructor(table: HopscotchTable, position: Position = { suffix: 0, depth: 0 }) {
    this.#table = table;
    this.position = position;
  }

  /** Reads the next segment; only before the end. */
  *next(): Operation<Picture> {
    const { suffix } = this.position as Position;
    const picture = yield* pictureOf(this.#table, suffix);
    const depth = depthOfLink(picture.segment.high);
    const next = nextSuffix(suffix & (2 ** depth - 1), depth);
    this.position = next === undefined ? undefined : { suffix: next, depth };
    return picture;
  }
}

/**
 * The segment that serves a suffix. Its first word is read behind its slots: where that is the
 * segment's identity, it had not been replaced before all of them were read, frozen or not.
 */
function* pictureOf(table: HopscotchTable, suffix: number): Operation<Picture> {
  for (let round = 1; ; round++) {
    table.giveUpAfter(round);
    const entry = yield* table.directory.find(suffix);
    if (entry === undefined) continue;
    const replaced: Link[] = [];
    for (let link: Link = entry; ; ) {
      const segment = yield* read(table, link);
      if (isInUse(table, segment)) return { segment, replaced };
      replaced.push(link);
      const to = replacementOf(segment);
      if (isFork(to)) replaced.push(to);
      link = isFork(to) ? yield* halfFor(table, to, suffix) : to;
    }
  }
}

function* read(table: HopscotchTable, { low, high }: Link): Operation<Visit> {
  const { leafBytes } = table.geometry;
  const address = addressOfLink(low, high);
  const image = new Scratch(leafBytes);
  const first = new Scratch(8);
  yield new Batch().read(address, leafBytes, image, 0).read(address, 8, first, 0);
  setWord(image, 0, first.i32[0], first.i32[1]);
  return { owner: 0, low, high, address, image };
}
