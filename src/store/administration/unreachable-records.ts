import { StepwellError } from '../../errors.ts';
import type { Index } from '../../indexes/contract.ts';
import { classOfHead } from '../../indexes/substrates/record-io.ts';
import type { Request } from '../../indexes/substrates/request.ts';
import { isCurrentState } from '../../pool/memory/block-state.ts';
import {
  FLAG_CHAINED,
  HEADER_BYTES,
  headUnitsOf,
  KEY_BYTES_AND_KIND,
  SLOT_UNITS_MAX,
  VALUE_BYTES,
  VALUE_BYTES_MAX,
} from '../../records/layout.ts';
import { type Address, Batch, type Operation, Scratch } from '../../verbs/index.ts';

const HEADERS_AT_ONCE = 256;
/** A damaged index may answer each search with an error, and late: so many are enough to know. */
const FAILED_SEARCHES_MAX = 8;

/** A block that is in use, and that nothing reaches. */
export interface UnreachedBlock {
  address: Address;
  state: number;
}

/** A store of which everything that is reachable has been reached. */
export interface Walked {
  index: Index;
  /** Whether no client that died can have left blocks that nothing reaches. */
  isSwept: boolean;
}

/**
 * Finds the records that an index has lost: an intact record in a block that is in use, that no
 * walk of the index has met, and whose key a search does not find.
 *
 * A client that was killed leaves such records as well: one that it had unlinked and not given
 * back yet, one that it had written and not linked, and what stood in blocks that it kept for
 * re-use. No look can tell these from lost ones. Say a client removes a key from a table of slots:
 * it swaps the slot to 0 and dies. A slot that damage has zeroed looks the same, and so does its
 * record. So a record is certainly lost when no client has died with the store open since a
 * complete sweep (`CatalogEntry.unswept`): a sweep frees all that the dead have left. A mark of
 * the index is always certain: a block that is marked as current (HStore) holds a record that has
 * not been removed.
 */
export class UnreachableRecords {
  readonly #problem: (text: string) => void;
  readonly #failures = new Map<Index, number>();
  count = 0;

  constructor(problem: (text: string) => void) {
    this.#problem = problem;
  }

  /** Looks through blocks of one size of the store. */
  *look(store: Walked, units: number, blocks: readonly UnreachedBlock[]): Operation<void> {
    const { index } = store;
    const request = index.newRequest();
    const headers = new Scratch(HEADER_BYTES * HEADERS_AT_ONCE);
    for (let first = 0; first < blocks.length; first += HEADERS_AT_ONCE) {
      const some = blocks.slice(first, first + HEADERS_AT_ONCE);
      const batch = new Batch();
      some.forEach(({ address }, i) => {
        batch.read(address, HEADER_BYTES, headers, HEADER_BYTES * i);
      });
      yield batch;
      for (let i = 0; i < some.length; i++) {
        if (!mayBeRecord(headers, HEADER_BYTES * i, units)) continue;
        yield* this.#lookAt(store, request, units, some[i]);
      }
    }
  }

  *#lookAt(
    { index, isSwept }: Walked,
    request: Request,
    units: number,
    { address, state }: UnreachedBlock,
  ): Operation<void> {
    const isMarked = index.manifest.marksCurrent === true;
    if (isMarked && !isCurrentState(state)) return;
    if (!(yield* readIntact(index, request, address, units))) return;
    if (yield* this.#isFound(index, request)) return;
    this.count++;
    if (!isMarked && !isSwept) return;
    this.#problem(`record at ${address} is intact, and no search finds its key`);
  }

  *#isFound(index: Index, request: Request): Operation<boolean> {
    const failures = this.#failures.get(index) ?? 0;
    if (failures >= FAILED_SEARCHES_MAX) return false;
    try {
      return yield* index.search(request);
    } catch (error) {
      if (!(error instanceof StepwellError)) throw error;
      this.#failures.set(index, failures + 1);
      return false;
    }
  }
}

/** Whether a header tells of a record that has just this size of block. */
function mayBeRecord({ i32 }: Scratch, at: number, units: number): boolean {
  const kind = i32[(at + KEY_BYTES_AND_KIND) >> 2];
  const valueBytes = i32[(at + VALUE_BYTES) >> 2] >>> 0;
  if (valueBytes > VALUE_BYTES_MAX) return false;
  const chained = ((kind >>> 24) & FLAG_CHAINED) !== 0;
  return classOfHead(headUnitsOf(kind & 0xffff, valueBytes, chained)) === units;
}

function* readIntact(
  { records }: Index,
  request: Request,
  address: Address,
  units: number,
): Operation<boolean> {
  try {
    yield* records.adopt(request, address, Math.min(units, SLOT_UNITS_MAX));
    yield* records.complete(request);
    return true;
  } catch (error) {
    // What stood in the block before, or the rest of a record whose other blocks are in use again.
    if (error instanceof StepwellError) return false;
    throw error;
  }
}
