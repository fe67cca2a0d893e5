import { StepwellError } from '../../errors.ts';
import { HEADER_BYTES } from '../../records/layout.ts';
import type { Operation } from '../../verbs/index.ts';
import type { ChimeRequest } from '../chime/leaf-client.ts';
import { slotsOf } from '../chime/node-io.ts';
import { isLive, lengthOf, recordOf } from '../chime/slot.ts';
import type { IndexWalk } from '../contract.ts';
import { type SlotRecord, visitRecords } from '../substrates/record-visits.ts';
import { type Position, SegmentWalk } from './segments.ts';
import type { HopscotchTable } from './table.ts';

/** A walk over all records, a segment at a time: each key that is present throughout comes once. */
export class HopscotchWalk implements IndexWalk {
  readonly #table: HopscotchTable;
  readonly #request: ChimeRequest;
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
    visit: (request: ChimeRequest, keyBytes: number) => void,
    keysOnly = false,
  ): Operation<void> {
    const table = this.#table;
    table.directory.begin();
    const { segment } = yield* this.#segments.next();
    const slots = slotsOf(table, segment);
    const records: SlotRecord[] = [];
    for (let i = 0; i < slots.length; i += 2) {
      const [low, high] = [slots[i], slots[i + 1]];
      if (isLive(low, high)) records.push({ address: recordOf(low, high), units: lengthOf(high) });
    }
    const { seed } = table.geometry.shape;
    const isFirst = onceEach();
    yield* visitRecords(table.records, this.#request, records, seed, isFirst, visit, keysOnly);
  }
}

/** A key that was removed and came back while the segment was being read may stand there twice. */
function onceEach(): (request: ChimeRequest) => boolean {
  const seen = new Set<string>();
  return ({ outgoing, keyBytes }) => {
    const key = Buffer.from(outgoing.u8.buffer, outgoing.u8.byteOffset + HEADER_BYTES, keyBytes);
    const name = key.toString('latin1');
    if (seen.has(name)) return false;
    seen.add(name);
    return true;
  };
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
