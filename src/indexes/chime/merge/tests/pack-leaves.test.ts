import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ALWAYS } from '../../../contract.ts';
import { childrenIn, linkIn } from '../../nodes/internal-node.ts';
import { isInternal } from '../../nodes/link.ts';
import { freezePair, linkAddress, rootLink, visit } from '../../nodes/node-io.ts';
import { type Client, checked, clientOf, requestFor } from '../../tests/support/client.ts';
import { packLeaves } from '../merge-underfull.ts';

const SHAPE = { span: 16, neighbourhood: 4, fanout: 4, inlineBytes: 24 };
const COUNT = 400;

/** A tree of leaves that are half full. */
function halfFull(t: Parameters<typeof clientOf>[0]): Client {
  const client = clientOf(t, SHAPE);
  for (let i = 0; i < COUNT; i++) {
    const request = requestFor(client, `key ${1000 + ((i * 387) % COUNT)}`, `${i}`);
    client.pool.run(client.index.write(request, ALWAYS));
  }
  for (let i = 0; i < COUNT; i++) {
    if (i % 2 === 0) client.pool.run(client.index.remove(requestFor(client, `key ${1000 + i}`)));
  }
  return client;
}

/** As a client leaves it that dies before it replaces the node above the lowest leaf. */
function freezeFirst({ pool, index: { tree } }: Client): void {
  let node = pool.run(visit(tree, tree.root, pool.run(rootLink(tree))));
  for (let link = linkIn(node.image, 0); isInternal(link.high); link = linkIn(node.image, 0)) {
    node = pool.run(visit(tree, linkAddress(node.address, 0), link));
  }
  assert.ok(childrenIn(node.image) > 1);
  assert.ok(pool.run(freezePair(tree, node, 0)));
}

test('leaves are packed behind a node that a dead client has frozen', (t) => {
  const [whole, frozen] = [halfFull(t), halfFull(t)];
  freezeFirst(frozen);
  const merges = whole.pool.run(packLeaves(whole.index.tree));
  assert.ok(merges > 5, `${merges} merges`);
  assert.equal(frozen.pool.run(packLeaves(frozen.index.tree)), merges);
  assert.deepEqual(checked(frozen), { problems: [], records: COUNT / 2 });
});
