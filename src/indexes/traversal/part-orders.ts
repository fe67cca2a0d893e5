import { StepwellError } from '../../errors.ts';
import { nextSuffix, suffixOf } from '../substrates/directory.ts';
import type { PartOrder } from './parts.ts';
import { partOf } from './sample.ts';

/** Keys whose hashes end with `suffix` of `depth` bits, from `at` on within the suffix. */
interface SuffixPosition {
  suffix: number;
  depth: number;
  at: number;
}

/** `at` is a multiple of `step` below `end`. */
interface SuffixLimits {
  end: number;
  step: number;
}

/**
 * The order of an index that splits by the suffixes of hashes. Suffixes come in the order of their
 * reversed bits, so that the halves of a split part are neighbours. `at` is the position within a
 * suffix, which a split must not change for any key. So a key never changes its position in the
 * order, and a traversal meets a key that is present throughout exactly once. A traversal that
 * continues from a cursor does not know which parts were being split: it may meet a key again.
 */
export class SuffixOrder implements PartOrder {
  readonly #limits: SuffixLimits;
  /** Halves of parts that were split while the traversal was in them; the next one last. */
  readonly #halves: SuffixPosition[] = [];
  #position: SuffixPosition | undefined;
  #end = 0;

  /** Raises SW_INVALID_ARGUMENT for an invalid cursor. */
  constructor(limits: SuffixLimits, cursor = 0) {
    this.#limits = limits;
    this.#position = positionOf(cursor, limits);
  }

  get done(): boolean {
    return this.#position === undefined;
  }

  get cursor(): number {
    return this.#position === undefined ? 0 : cursorOf(this.#position);
  }

  /** Only before the end. */
  get position(): Readonly<SuffixPosition> {
    return this.#position as SuffixPosition;
  }

  /**
   * Notes that the part read for the position has this local depth, and ends before `end`. If it
   * was split since the traversal entered it, the rest of each half is visited in turn.
   */
  arrive(depth: number, end: number): void {
    const position = this.#position as SuffixPosition;
    this.#end = end;
    if (position.at === 0) {
      position.suffix = suffixOf(position.suffix, depth);
      position.depth = depth;
    }
    while (position.depth < depth) {
      const suffix = position.suffix + 2 ** position.depth;
      position.depth++;
      this.#halves.push({ ...position, suffix });
    }
  }

  /** Whether a key with this hash has the position's suffix. */
  holds(hash: number): boolean {
    const { suffix, depth } = this.position;
    return suffixOf(hash, depth) === suffix;
  }

  pass(): void {
    const position = this.#position as SuffixPosition;
    position.at = this.#end;
    if (this.#end < this.#limits.end) return;
    this.#position = this.#halves.pop() ?? following(position);
  }
}

function following({ suffix, depth }: SuffixPosition): SuffixPosition | undefined {
  const next = nextSuffix(suffix, depth);
  return next === undefined ? undefined : { suffix: next, depth, at: 0 };
}

/** Fields of a cursor. The cursor 0 stands for the start and for the end. */
const AT_VALUES = 2 ** 18;
const DEPTH_MAX = 24;
const SUFFIX_VALUES = 2 ** DEPTH_MAX;
/** In the lowest bits, to refuse most numbers that are not cursors. */
const MARK = 5;
const MARK_VALUES = 8;

export function cursorOf({ suffix, depth, at }: SuffixPosition): number {
  return ((depth * SUFFIX_VALUES + suffix) * AT_VALUES + at) * MARK_VALUES + MARK;
}

function positionOf(cursor: number, { end, step }: SuffixLimits): SuffixPosition {
  if (cursor === 0) return { suffix: 0, depth: 0, at: 0 };
  const code = Math.floor(cursor / MARK_VALUES);
  const at = code % AT_VALUES;
  const suffix = Math.floor(code / AT_VALUES) % SUFFIX_VALUES;
  const depth = Math.floor(code / AT_VALUES / SUFFIX_VALUES);
  const isCursor = Number.isSafeInteger(cursor) && cursor > 0 && cursor % MARK_VALUES === MARK;
  const isPosition = depth <= DEPTH_MAX && suffix < 2 ** depth && at < end && at % step === 0;
  if (isCursor && isPosition) return { suffix, depth, at };
  throw new StepwellError('SW_INVALID_ARGUMENT', `not a cursor of this store: ${cursor}`);
}

/** The order of an index in which no key ever changes its position; the position is the cursor. */
export class RangeOrder implements PartOrder {
  position: number;
  /** Where the part that was read ends. */
  next: number;
  readonly end: number;
  readonly #step: number;
  readonly #period: number;

  /**
   * Parts begin at multiples of `step` within each `period`. Raises SW_INVALID_ARGUMENT for an
   * invalid cursor.
   */
  constructor(end: number, step: number, cursor = 0, period = end) {
    this.end = end;
    this.#step = step;
    this.#period = period;
    this.position = cursor;
    this.next = cursor;
    const isPosition = Number.isSafeInteger(cursor) && cursor >= 0 && cursor < end;
    if (isPosition && this.#beginOf(cursor) === cursor) return;
    throw new StepwellError('SW_INVALID_ARGUMENT', `not a cursor of this store: ${cursor}`);
  }

  get done(): boolean {
    return this.position >= this.end;
  }

  get cursor(): number {
    return this.done ? 0 : this.position;
  }

  pass(): void {
    this.position = this.next;
  }

  seek(place: number): void {
    this.position = this.#beginOf(partOf(place, this.end).part);
  }

  #beginOf(position: number): number {
    return position - ((position % this.#period) % this.#step);
  }
}
