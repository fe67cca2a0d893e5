import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Stepped } from '../../../../store/tests/support/by-hand.ts';
import type { Scope } from '../../../../store/tests/support/pools.ts';
import { ALWAYS } from '../../../contract.ts';
import { childrenIn } from '../../nodes/internal-node.ts';
import { rootLink, visit } from '../../nodes/node-io.ts';
import { type Client, checked, clientOf, requestFor } from '../../tests/support/client.ts';

const SHAPE = { span: 2, neighbourhood: 2, fanout: 8, inlineBytes: 24 };
const KEYS = Array.from({ length: 60 }, (_, i) => `key ${100 + i}`);
/** When the keys before this one are gone, its removal joins the first two nodes above leaves. */
const JOINS = 9;
/** In one of these nodes. Its removal merges two leaves, and so replaces the node. */
const MERGES = 14;
/** A merge ends with the CAS of the node's identity and that of the link to the node. */
const LAST_BATCHES = 2;

const removal = (client: Client, key: number) =>
  new Stepped(client.pool.fabric, client.index.remove(requestFor(client, KEYS[key])));

function finish(operation: Stepped<unknown>): void {
  while (!operation.done) operation.step();
}

/** Two clients of a tree from which the first keys have been removed. */
function sparse(scope: Scope): Client[] {
  const first = clientOf(scope, SHAPE);
  const { pool, index } = first;
  KEYS.forEach((_, i) => {
    const key = KEYS[(i * 37) % KEYS.length];
    pool.run(index.write(requestFor(first, key, key), ALWAYS));
  });
  for (let key = 0; key < JOINS; key++) finish(removal(first, key));
  const other = clientOf(scope, {}, first.handle);
  other.pool.run(other.index.search(requestFor(other, KEYS[JOINS + 1])));
  return [first, other];
}

function nodesBelowRoot({ pool, index: { tree } }: Client): number {
  return childrenIn(pool.run(visit(tree, tree.root, pool.run(rootLink(tree)))).image);
}

/** How many batches each client's removal takes when the other one stands still. */
function batches(scope: Scope): [join: number, merge: number] {
  const [first] = sparse(scope);
  const before = nodesBelowRoot(first);
  const join = removal(first, JOINS);
  finish(join);
  assert.equal(nodesBelowRoot(first), before - 1);
  const [, other] = sparse(scope);
  const merge = removal(other, MERGES);
  finish(merge);
  assert.equal(other.index.tree.merges, 1);
  return [join.steps, merge.steps];
}

/**
 * The join has read both nodes when the other client replaces one of them, and stops before the
 * link leads to the replacement. The join must notice that its image is too old.
 */
test('a join of two nodes follows one that is replaced after it was read', (t) => {
  const [join, merge] = batches(t);
  for (let ahead = join - 12; ahead < join; ahead++) {
    for (let behind = merge - LAST_BATCHES; behind < merge; behind++) {
      const clients = sparse(t);
      const [first, other] = clients;
      const [joining, merging] = [removal(first, JOINS), removal(other, MERGES)];
      for (let i = 0; i < ahead && !joining.done; i++) joining.step();
      for (let i = 0; i < behind && !merging.done; i++) merging.step();
      finish(joining);
      finish(merging);
      const stops = `${ahead} and ${behind} batches`;
      assert.deepEqual(checked(first), { problems: [], records: KEYS.length - JOINS - 2 }, stops);
      const retired = clients.flatMap(({ pool }) => pool.reclamation.waiting());
      assert.equal(new Set(retired).size, retired.length, `retired twice: ${stops}`);
    }
  }
});
