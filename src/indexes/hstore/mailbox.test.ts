import assert from 'node:assert/strict';
import { test } from 'node:test';
import { clientOf } from '../../store/test-support/by-hand.ts';
import { type Batch, PAUSE } from '../../verbs/index.ts';
import { HSTORE, type HStoreIndex } from './hstore.ts';
import { PATIENCE } from './pair.ts';

/** Microseconds that a batch lets pass, without letting them pass. */
function pausesOf({ length, kind, bytes }: Batch): number {
  let sum = 0;
  for (let row = 0; row < length; row++) if (kind[row] === PAUSE) sum += bytes[row];
  return sum;
}

test('who has no row left waits for longer than a server may stand still', (t) => {
  const { pool, index } = clientOf<HStoreIndex>(HSTORE, t, { buckets: 4, rows: 16, log: 16 }, {});
  const [{ mailbox }] = index.table.pairs;
  // 16 rows for as many clients: one each.
  const row = pool.run(mailbox.take());
  const waiting = mailbox.take();
  let microseconds = 0;
  assert.throws(
    () => {
      for (;;) microseconds += pausesOf(waiting.next().value as Batch);
    },
    { code: 'SW_CONTENTION' },
  );
  assert.ok(microseconds > PATIENCE.lapse * PATIENCE.longMicroseconds, `${microseconds} us`);
  mailbox.give(row);
  assert.equal(pool.run(mailbox.take()), row);
});
