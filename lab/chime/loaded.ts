import { ALWAYS } from '../../src/indexes/contract.ts';
import { type OwnIndex, ownIndex } from '../support/own-index.ts';
import { KeyGenerator, Permutation, ValueGenerator } from '../workloads/index.ts';

/** Section 5.1; a leaf is split when hopping does not help. */
export const PAPERS_SHAPE = { span: 64, neighbourhood: 8 } as const;

/** A tree with keys 0 to `records` - 1, inserted in random order by one client. */
export function loaded(
  records: number,
  shape: Readonly<Record<string, number>>,
  seed: number,
): OwnIndex {
  const own = ownIndex('chime', records, shape);
  const { pool, index } = own;
  const order = new Permutation(records, seed);
  const keys = new KeyGenerator();
  const values = new ValueGenerator();
  const request = index.newRequest();
  for (let i = 0; i < records; i++) {
    const record = order.at(i);
    const value = values.buffer(record);
    index.records.encode(request, keys.bytes(record), value, index.hashSeed, 1);
    pool.enter();
    pool.run(index.write(request, ALWAYS));
    pool.exit();
  }
  return own;
}
