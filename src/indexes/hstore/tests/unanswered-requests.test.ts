import assert from 'node:assert/strict';
import { test } from 'node:test';
import { StepwellError } from '../../../errors.ts';
import { claimedBlocks } from '../../../pool/memory/tests/support/claimed-blocks.ts';
import { foundText, requestFor, Stepped } from '../../../store/tests/support/by-hand.ts';
import { ALWAYS } from '../../contract.ts';
import { sweep } from '../../sweep.ts';
import { unitsOfRecord } from '../protocol/turn.ts';
import { holding } from '../recovery/hold-lease.ts';
import { type Client, get, newClient } from './support/clients.ts';

const PATIENCE = { lapse: 1e9, pollsMax: 20 };

/** An operation, and what the event loop does when it turns. */
function alone<T>({ pool }: Client, operation: () => T): T {
  pool.enter();
  try {
    return operation();
  } finally {
    pool.exit();
    rest({ pool });
  }
}

function rest({ pool }: Pick<Client, 'pool'>): void {
  pool.betweenOperations(() => pool.reclamation.goOffline());
  pool.betweenOperations(() => pool.reclamation.collect());
}

/** Writes a value; returns where its record stands. */
function put(client: Client, key: string, value: string): number {
  const request = requestFor(client, key, value);
  return alone(client, () => {
    client.pool.run(client.index.write(request, ALWAYS));
    client.pool.run(client.index.search(request));
    return request.foundAddress;
  });
}

function increment({ pool, index }: Client, key: string): void {
  const request = requestFor({ index }, key);
  pool.run(
    index.modify(request, () => {
      index.records.encodeValue(request, String(Number(foundText(request)) + 1), 1);
    }),
  );
}

/** There is memory for turns of one request, which a client brings, and for no other. */
function fillForTurns({ pool }: Client): () => void {
  const { allocator } = pool;
  const { allocate } = allocator;
  allocator.allocate = (catalog, units, node) => {
    if (units > unitsOfRecord(1)) throw new StepwellError('SW_POOL_FULL', 'in this test');
    return allocate.call(allocator, catalog, units, node);
  };
  return () => {
    allocator.allocate = allocate;
  };
}

test('an increment that was given up is not applied to a record in the memory of its own', (t) => {
  const one = newClient(t, {}, { patience: PATIENCE });
  const [holder, other] = [
    newClient(t, { handle: one.handle }),
    newClient(t, { handle: one.handle }),
  ];
  const before = put(other, 'n', '5');
  holder.pool.run(
    holding(holder.index.table.pairs[0], 'the test', function* () {
      alone(one, () => assert.throws(() => increment(one, 'n'), { code: 'SW_TIMEOUT' }));
    }),
  );
  rest(holder);
  // It waits as long as turns are of one request: others' clients are answered meanwhile.
  const free = fillForTurns(other);
  let value = 100;
  for (let block = 0; block !== before; value++) {
    assert.ok(value < 1000, 'the memory is never re-used');
    block = put(other, 'n', String(value));
  }
  free();
  put(holder, 'another', '');
  assert.equal(get(other, 'n'), String(value - 1));
});

test('a sweep spares the record of a request that another client has given up', (t) => {
  const one = newClient(t, {}, { patience: PATIENCE });
  const [holder, other] = [
    newClient(t, { handle: one.handle }),
    newClient(t, { handle: one.handle }),
  ];
  put(one, 'another', '1');
  const late = requestFor(one, 'late', 'value');
  holder.pool.run(
    holding(holder.index.table.pairs[0], 'the test', function* () {
      const writing = () => one.pool.run(one.index.write(late, ALWAYS));
      alone(one, () => assert.throws(writing, { code: 'SW_TIMEOUT' }));
    }),
  );
  rest(holder);
  other.pool.betweenOperations(() => sweep(other.pool, other.index));
  const claimed = claimedBlocks(other.pool, other.index.records.catalog);
  assert.ok(claimed.has(late.record.written), 'a request that waits names a free block');
  put(holder, 'another', '2');
  assert.equal(get(other, 'late'), 'value');
});

test('a request is answered although others are posted all the time for the same bucket', (t) => {
  const shape = { buckets: 1, rows: 16, log: 16 };
  const one = newClient(t, {}, { shape });
  const others = [1, 2, 3].map(() => newClient(t, { handle: one.handle }, { shape }));
  const server = newClient(t, { handle: one.handle }, { shape });
  const posting = (client: Client) =>
    new Stepped(client.pool.fabric, client.index.write(requestFor(client, 'hot', 'v'), ALWAYS));
  // Rows of the mailbox are taken in this order.
  const busy = others.map(posting);
  for (const writing of busy) writing.finish();
  const servers = server.index.server({ role: 'hash' });
  server.pool.run(servers.round());
  others.forEach((client, i) => {
    busy[i] = posting(client);
  });
  const waiting = posting(one);
  for (let turns = 0; !waiting.done; turns++) {
    assert.ok(turns < 100, 'it is never its turn');
    const round = new Stepped<unknown>(server.pool.fabric, servers.round());
    while (!round.done) {
      round.step();
      waiting.step();
      if (waiting.done) break;
      others.forEach((client, i) => {
        busy[i].step();
        if (busy[i].done) busy[i] = posting(client);
      });
    }
  }
});
