import type { Operation } from '../../verbs/index.ts';
import { type Index, type IndexWalk, isOrdered, type KeyRange } from '../contract.ts';
import type { RecordIo } from '../substrates/record-io.ts';
import type { Request } from '../substrates/request.ts';
import type { Parts } from './parts.ts';
import { noteRecords, visitRecords } from './visit-records.ts';

/**
 * Begins a walk over all records, or goes on at a cursor. The range is a hint for an index whose
 * walks are ordered. Raises SW_INVALID_ARGUMENT for an invalid cursor.
 */
export function walkOf(
  index: Index,
  cursor = 0,
  range?: Pick<KeyRange, 'lower' | 'upper'>,
): IndexWalk {
  const ordered = isOrdered(index) ? index.walk?.(cursor, range) : undefined;
  return ordered ?? new PartsWalk(index.parts(cursor), index.records, index.newRequest());
}

/** A walk over all records, a part at a time. */
export class PartsWalk<R extends Request> {
  readonly #parts: Parts<R>;
  readonly #records: RecordIo;
  readonly #request: R;

  constructor(parts: Parts<R>, records: RecordIo, request: R) {
    this.#parts = parts;
    this.#records = records;
    this.#request = request;
  }

  get done(): boolean {
    return this.#parts.order.done;
  }

  get cursor(): number {
    return this.#parts.order.cursor;
  }

  *next(visit: (request: R, keyBytes: number) => void, keysOnly = false): Operation<void> {
    const parts = this.#parts;
    const request = this.#request;
    yield* parts.read();
    parts.eachInline?.(request, visit);
    request.candidates.count = 0;
    noteRecords(parts, request);
    const isHere = (one: R, i: number) => parts.isHere?.(one, i) ?? true;
    yield* visitRecords(this.#records, request, isHere, visit, keysOnly, parts.unitsMax);
    parts.order.pass();
  }
}
