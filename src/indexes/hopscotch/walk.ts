import { StepwellError } from '../../errors.ts';
import type { Operation } from '../../verbs/index.ts';
import type { IndexWalk } from '../contract.ts';
import type { LeafRequest } from '../substrates/leaf/leaf-request.ts';
import { visitItems } from '../substrates/leaf/picture.ts';
import { type Position, SegmentWalk } from './segments.ts';
import type { HopscotchTable } from './table.ts';

/** A walk over all records, a segment at a time: each key that is present throughout comes once. */
export class HopscotchWalk implements IndexWalk {
  readonly #table: HopscotchTable;
  readonly #request: LeafRequest;
  readonly #segments: SegmentWalk;

  /** Raises SW_INVALID_ARGUMENT for what is no cursor. */
  constructor(table: HopscotchTable, cursor: number) {
    this.#table = table;
    this.#request = table.newRequest();
    this.#segments = new SegmentWalk(table, decodeCursor(cursor, table.directory.maxDepth));
  }

  get done(): boolean {
    return this.#segments.position === undefined;
  }

  get cursor(): number {
    const { position } = this.#segments;
    return position === undefined ? 0 : encodeCursor(position);
  }

  *next(
    visit: (request: LeafRequest, keyBytes: number) => void,
    keysOnly = false,
  ): Operation<void> {
    const picture = yield* this.#segments.next();
    yield* visitItems(this.#table, picture, this.#request, visit, keysOnly);
  }
}

/** 0 stands for the start and for the end. */
const SUFFIX_VALUES = 2 ** 24;

function encodeCursor({ suffix, depth }: Position): number {
  return depth * SUFFIX_VALUES + suffix + 1;
}

function decodeCursor(cursor: number, maxDepth: number): Position {
  if (cursor === 0) return { suffix: 0, depth: 0 };
  const suffix = (cursor - 1) % SUFFIX_VALUES;
  const depth = Math.floor((cursor - 1) / SUFFIX_VALUES);
  const valid = Number.isSafeInteger(cursor) && cursor > 0 && depth <= maxDepth;
  if (valid && suffix < 2 ** depth) return { suffix, depth };
  throw new StepwellError('SW_INVALID_ARGUMENT', `not a cursor of this store: ${cursor}`);
}
