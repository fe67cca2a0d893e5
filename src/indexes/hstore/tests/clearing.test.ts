/** Buckets that are cleared in one turn, by servers and clients that die. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { claimedBlocks } from '../../../pool/memory/tests/support/claimed-blocks.ts';
import { kindsOf, requestFor, Stepped } from '../../../store/tests/support/by-hand.ts';
import type { Operation } from '../../../verbs/index.ts';
import { isOrdered } from '../../contract.ts';
import { sweep } from '../../sweep.ts';
import { answerAbandoned } from '../recovery/abandoned-requests.ts';
import { type Client, get, newClient, put, scanned } from './support/clients.ts';

/** One bucket, and more records than its turn could answer one by one. */
const SHAPE = { buckets: 1, rows: 16, log: 16 };
const KEYS = ['a', 'b', 'c', 'd', 'e'];
const NO_CODEC = 255;

function clearing({ index }: Client): Operation<number> {
  return (index.clearing(NO_CODEC) as { next(): Operation<number> }).next();
}

/** Two clients of one pool whose bucket has records. */
function filled(scope: Parameters<typeof newClient>[0]): Client[] {
  const one = newClient(scope, {}, { shape: SHAPE });
  const other = newClient(scope, { handle: one.handle }, { shape: SHAPE });
  for (const key of KEYS) put(one, key, 'old');
  return [one, other];
}

/** The client's death is known to the other one. */
function bury(dead: Client, other: Client): void {
  const { membership } = other.pool;
  const { liveness } = membership;
  membership.liveness = (row) =>
    row.id === dead.pool.membership.id ? 'gone' : liveness.call(membership, row);
}

const present = (client: Client) => KEYS.filter((key) => get(client, key) !== undefined);

test('a client that opens the store after a death is cleared of nothing that it writes', (t) => {
  let late = 0;
  for (let steps = 0; ; steps++) {
    const [dying, other] = filled(t);
    const clears = new Stepped(dying.pool.fabric, clearing(dying));
    for (let i = 0; i < steps && !clears.done; i++) clears.step();
    const { done } = clears;
    bury(dying, other);
    const before = present(other).length;
    other.pool.run(answerAbandoned(other.index.table.pairs[0]));
    const after = present(other);
    if (after.length !== before) late++;
    put(other, 'new', 'v');
    put(other, 'another', 'v');
    assert.deepEqual(present(other), after, `after ${steps} steps`);
    assert.deepEqual([get(other, 'new'), get(other, 'another')], ['v', 'v'], `${steps} steps`);
    if (done) break;
  }
  assert.ok(late > 3, `${late} times late`);
});
