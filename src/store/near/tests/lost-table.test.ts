import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ALWAYS } from '../../../indexes/contract.ts';
import { HSTORE, type HStoreIndex } from '../../../indexes/hstore/hstore.ts';
import { readState, reportLost } from '../../../indexes/hstore/protocol/pair-state.ts';
import { restoreTable } from '../../../indexes/hstore/recovery/rebuild-table.ts';
import type { Proof } from '../../../indexes/substrates/proof.ts';
import type { Request } from '../../../indexes/substrates/request.ts';
import { NULL_ADDRESS } from '../../../verbs/index.ts';
import { type ByHand, clientOf, foundText, requestFor } from '../../tests/support/by-hand.ts';
import type { Scope } from '../../tests/support/pools.ts';
import { type NearIndex, NearReads, UNPROVEN } from '../near-reads.ts';

/** Near reads of a key whose table is built anew, and which then gets another value. */
function readAfterRebuild(t: Scope, indexOf: (index: HStoreIndex) => NearIndex): unknown {
  const client: ByHand<HStoreIndex> = clientOf(HSTORE, t, { buckets: 4, rows: 16, log: 16 }, {});
  const { pool, index } = client;
  const put = (value: string) => pool.run(index.write(requestFor(client, 'k', value), ALWAYS));
  put('old');
  const section = {
    pool,
    inPlace: undefined,
    *enter() {
      yield* [];
    },
    exit() {},
  };
  const settings = { maxEntries: 10, maxBytes: Number.POSITIVE_INFINITY, freeze: false };
  const near = new NearReads(section, indexOf(index), settings, { values: 'utf8' });
  const request = requestFor(client, 'k');
  assert.ok(pool.run(index.search(request)));
  for (let read = 0; read < 2; read++) near.keep('k', request, foundText(request));
  assert.equal(pool.run(near.read('k')), 'old');
  const [pair] = index.table.pairs;
  const { generation } = pool.run(readState(pair)).table;
  pool.run(reportLost(pair.geometry, generation));
  pool.run(restoreTable(pair, generation));
  put('new');
  return pool.run(near.read('k'));
}

test('a slot of an HStore table that was built anew elsewhere proves nothing', (t) => {
  assert.equal(
    readAfterRebuild(t, (index) => index),
    UNPROVEN,
  );
});

test('without the mark of its bucket that slot would prove an old value', (t) => {
  const unmarked = (index: HStoreIndex): NearIndex => ({
    records: index.records,
    prove(request: Request, proof: Proof) {
      const proves = index.prove(request as never, proof);
      proof.mark = NULL_ADDRESS;
      return proves;
    },
  });
  assert.equal(readAfterRebuild(t, unmarked), 'old');
});
