import type { Index } from '../../indexes/contract.ts';
import type { Request } from '../../indexes/substrates/request.ts';
import type { Pool } from '../../pool/pool.ts';
import {
  CONTINUATION_HEADER_BYTES,
  HEADER_BYTES,
  KEY_BYTES_AND_KIND,
  pad8,
} from '../../records/layout.ts';
import { type Address, type Operation, readInteger, UNIT_BYTES } from '../../verbs/index.ts';

/** Enough bytes for the header and most keys. */
const READ_AT_FIRST = 128;
/** Offset in a continuation block of a chained value: the address of the first block. */
const HEAD = 16;

/**
 * Finds the record that a block belongs to. The block alone proves nothing: the record counts only
 * if a search of the index for its key leads to the block.
 */
export class BlockRecord {
  readonly #pool: Pool;
  readonly #index: Index;

  constructor(pool: Pool, index: Index) {
    this.#pool = pool;
    this.#index = index;
  }

  /** Whether the block belongs to a record. If so, the request holds that record as found. */
  *find(request: Request, block: Address, units: number): Operation<boolean> {
    if (yield* this.#isHead(request, block, units)) return true;
    if (units * UNIT_BYTES < CONTINUATION_HEADER_BYTES) return false;
    const { batch, incoming } = request;
    yield batch.clear().read(block, CONTINUATION_HEADER_BYTES, incoming, 0);
    const head = readInteger(incoming, HEAD);
    const { chunks } = this.#pool;
    if (!chunks.isBlockAddress(head)) return false;
    const word = yield* chunks.wordOf(chunks.chunkOf(head));
    const { catalog } = this.#index.records;
    if (!(yield* chunks.holdsBlock(head, word.units, catalog))) return false;
    return yield* this.#isHead(request, head, word.units);
  }

  /** Whether the block is the first one of a record that is in the index. */
  *#isHead(request: Request, block: Address, units: number): Operation<boolean> {
    const { batch, incoming } = request;
    const bytes = units * UNIT_BYTES;
    yield batch.clear().read(block, Math.min(bytes, READ_AT_FIRST), incoming, 0);
    const keyBytes = incoming.i32[KEY_BYTES_AND_KIND >> 2] & 0xffff;
    const end = HEADER_BYTES + pad8(keyBytes);
    if (end > bytes) return false;
    if (end > READ_AT_FIRST) {
      incoming.ensure(end);
      yield batch.clear().read(block, end, incoming, 0);
    }
    request.adoptKeyAt(incoming, HEADER_BYTES, keyBytes, this.#index.records.seed);
    if (!(yield* this.#index.search(request))) return false;
    return request.foundAddress === block;
  }
}
