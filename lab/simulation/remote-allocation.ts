import { RaceIndex } from '../../src/indexes/race/race.ts';
import { RaceTable } from '../../src/indexes/race/table.ts';
import { RecordIo } from '../../src/indexes/substrates/record-io.ts';
import type { Request } from '../../src/indexes/substrates/request.ts';
import type { CatalogEntry } from '../../src/pool/catalog.ts';
import type { LocalPool } from '../../src/pool/local-pool.ts';
import { Batch, type Operation, Scratch } from '../../src/verbs/index.ts';
import { postCall } from '../simulated/call.ts';

/** Request and reply: a size, an address. */
const CALL_BYTES = 8;

/**
 * A test double that allocates each block by a two-sided call to the memory node, as RACE without
 * pre-allocation does. The call only takes time; the block is one that was claimed ahead.
 */
class RemoteRecordIo extends RecordIo {
  readonly #node: number;

  constructor(pool: LocalPool, { id, root }: CatalogEntry, seed: number) {
    super(pool, id, seed);
    this.#node = root;
  }

  override take(): boolean {
    return false;
  }

  override *allocate(request: Request): Operation<void> {
    yield postCall(new Batch(), this.#node, CALL_BYTES, new Scratch(CALL_BYTES), 0);
    yield* super.allocate(request);
  }
}

export function withRemoteAllocation(
  race: RaceIndex,
  pool: LocalPool,
  entry: CatalogEntry,
): RaceIndex {
  const { geometry, directory, allocator, catalog } = race.table;
  const records = new RemoteRecordIo(pool, entry, race.records.seed);
  return new RaceIndex(new RaceTable(geometry, directory, records, allocator, catalog));
}
