import { ALWAYS } from '../../src/indexes/contract.ts';
import { type OwnIndex, ownIndex } from '../support/own-index.ts';
import { Permutation, ShortKeyGenerator, ValueGenerator } from '../workloads/index.ts';

/** CHIME section 5.1: keys and values of 8 bytes are stored in the leaf. */
export const PAPERS_SHAPE = { span: 64, neighbourhood: 8, inlineBytes: 16 } as const;
export const KEY_BYTES = 8;
export const VALUE_BYTES = 8;

/** The key of a record, padded to `bytes`. */
export function keyOf(record: number, bytes: number = KEY_BYTES): Uint8Array {
  const key = new Uint8Array(bytes);
  key.set(new ShortKeyGenerator().bytes(record));
  return key;
}

export function valueFor(record: number): Uint8Array {
  return new ValueGenerator(VALUE_BYTES).buffer(record);
}

/** A tree with keys 0 to `records` - 1, inserted in random order by one client. */
export function loaded(
  records: number,
  shape: Readonly<Record<string, number>>,
  seed: number,
  keyBytes: number = KEY_BYTES,
): OwnIndex {
  const own = ownIndex('chime', records, { ...PAPERS_SHAPE, ...shape });
  const { pool, index } = own;
  const order = new Permutation(records, seed);
  const request = index.newRequest();
  for (let i = 0; i < records; i++) {
    const record = order.at(i);
    const key = keyOf(record, keyBytes);
    index.records.encode(request, key, valueFor(record), 1);
    pool.enter();
    pool.run(index.write(request, ALWAYS));
    pool.exit();
  }
  return own;
}
