import { test } from 'node:test';
import { control } from '../../../pool/control.ts';
import { clientByHand, sepHashByHand } from '../../../store/tests/support/by-hand.ts';
import { throwsCode } from '../../../store/tests/support/codes.ts';

for (const make of [clientByHand, sepHashByHand]) {
  test(`${make.name}: an entry of the directory where no block can begin is damage`, (t) => {
    const { pool, index, handle } = make(t);
    const { directory } = index.table;
    const entry = directory.parts.entry(0);
    const word = pool.run(control.load(entry));
    // Off by one, among the pool's own tables, and in a region that there is not.
    for (const damaged of [word + 1n, 64n, 2n ** 40n]) {
      pool.run(control.store(entry, damaged));
      throwsCode('SW_POOL_CORRUPT', () => make(t, { handle }));
      throwsCode('SW_POOL_CORRUPT', () => pool.run(directory.refresh(0)));
    }
    pool.run(control.store(entry, word));
    make(t, { handle });
  });
}
