import { test } from 'node:test';
import { control } from '../../../pool/control.ts';
import { clientByHand, sepHashByHand } from '../../../store/tests/support/by-hand.ts';
import { throwsCode } from '../../../store/tests/support/codes.ts';

for (const make of [clientByHand, sepHashByHand]) {
  test(`${make.name}: an entry of the directory that begins in no block is damage`, (t) => {
    const { pool, index, handle } = make(t);
    const { directory } = index.table;
    const entry = directory.parts.entry(0);
    const word = pool.run(control.load(entry));
    pool.run(control.store(entry, word + 1n));
    throwsCode('SW_POOL_CORRUPT', () => make(t, { handle }));
    throwsCode('SW_POOL_CORRUPT', () => pool.run(directory.refresh(0)));
    pool.run(control.store(entry, word));
    make(t, { handle });
  });
}
