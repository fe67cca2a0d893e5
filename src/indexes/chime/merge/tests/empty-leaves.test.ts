import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ALWAYS } from '../../../contract.ts';
import { childrenIn, linkIn, separatorIn } from '../../nodes/internal-node.ts';
import { isInternal } from '../../nodes/link.ts';
import { linkAddress, rootLink, visit } from '../../nodes/node-io.ts';
import {
  type Client,
  checked,
  clientOf,
  foundText,
  requestFor,
} from '../../tests/support/client.ts';

const SHAPE = { span: 16, neighbourhood: 4, fanout: 16, inlineBytes: 40 };
const COUNT = 100;
const ROUNDS = 8;

/** Values of some items stand in the leaf, and others in records. */
function textOf(i: number, round = 0): string {
  return `${i} ${round}`.padEnd(i % 5 === 0 ? 100 : 8);
}

function keyOf(i: number): string {
  return `key ${1000 + i}`;
}

class Model {
  readonly client: Client;
  readonly values = new Map<string, string>();

  constructor(client: Client) {
    this.client = client;
  }

  get merges(): number {
    return this.client.index.tree.merges;
  }

  put(key: string, value: string): void {
    const { pool, index } = this.client;
    pool.run(index.write(requestFor(this.client, key, value), ALWAYS));
    this.values.set(key, value);
  }

  /** As in a full pool: where there is room, an empty leaf beside a full one stays. */
  removeTight(key: string): void {
    this.client.index.tree.allocator.isTight = true;
    this.remove(key);
  }

  remove(key: string): void {
    const { pool, index } = this.client;
    assert.equal(pool.run(index.remove(requestFor(this.client, key))), this.values.delete(key));
  }

  /** The keys of each leaf below the lowest internal node, in order. */
  firstLeaves(): string[][] {
    const { pool, index } = this.client;
    const { tree } = index;
    let node = pool.run(visit(tree, tree.root, pool.run(rootLink(tree))));
    for (let link = linkIn(node.image, 0); isInternal(link.high); link = linkIn(node.image, 0)) {
      node = pool.run(visit(tree, linkAddress(node.address, 0), link));
    }
    const count = childrenIn(node.image) - 1;
    const ends = Array.from({ length: count }, (_, i) =>
      Buffer.from(separatorIn(node.image, i)).toString(),
    );
    const keys = [...this.values.keys()];
    return ends.map((end, i) => keys.filter((key) => key < end && (i === 0 || key >= ends[i - 1])));
  }

  verify(): void {
    const { pool, index } = this.client;
    for (const [key, value] of this.values) {
      const request = requestFor(this.client, key);
      assert.ok(pool.run(index.search(request)), `${key} is there`);
      assert.equal(foundText(request), value);
    }
    assert.deepEqual(checked(this.client), { problems: [], records: this.values.size });
  }
}

/** Leaves that are as full as they get: keys that ascend split the last leaf at its end. */
function ascended(
  t: Parameters<typeof clientOf>[0],
  shape: Parameters<typeof clientOf>[1],
  first: number,
): Model {
  const model = new Model(clientOf(t, shape));
  for (let i = first; i < first + COUNT; i++) model.put(keyOf(i), textOf(i));
  return model;
}

for (const accessWords of [0, 1] as const) {
  const shape = { ...SHAPE, accessWords };

  for (const empty of [0, 1]) {
    const what = empty === 0 ? 'takes all of the next one' : 'goes into the one before it';
    test(`an empty leaf beside a full one ${what}; access words: ${accessWords}`, (t) => {
      let tried = 0;
      for (let first = 0; first < 100 * ROUNDS; first += 100) {
        const model = ascended(t, shape, first);
        const leaves = model.firstLeaves();
        const gone = leaves[empty];
        const stays = leaves[1 - empty];
        if (4 * stays.length <= 3 * SHAPE.span) continue;
        tried++;
        for (const key of gone) model.removeTight(key);
        assert.equal(model.merges, 1);
        assert.deepEqual(model.firstLeaves()[0], stays);
        model.verify();
        // What has moved can be replaced, moved by hops, and removed.
        for (const key of stays) model.put(key, textOf(first, 1));
        for (const key of gone) model.put(key, textOf(first, 1));
        model.verify();
        for (const key of stays) model.remove(key);
        model.verify();
      }
      assert.ok(tried > ROUNDS / 2, `${tried} leaves were that full`);
    });
  }

  test(`leaves of which each has some items become one; access words: ${accessWords}`, (t) => {
    const model = ascended(t, shape, 0);
    for (let step = 1; step < COUNT; step++) {
      const i = (step * 7) % COUNT;
      if (i % 4 !== 0) model.remove(keyOf(i));
      if (step % 20 === 0) model.verify();
    }
    assert.ok(model.merges > 3, `${model.merges} merges`);
    model.verify();
  });
}
