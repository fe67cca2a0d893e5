import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ALWAYS } from '../../contract.ts';
import { checked, clientOf, requestFor, scanned } from './support/client.ts';

const COUNT = 1000;

/** `step` is prime to the count, so every key comes once. */
function filledBy(step: number, key: (i: number) => string | Uint8Array) {
  return (t: Parameters<typeof clientOf>[0]) => {
    const client = clientOf(t, {});
    for (let i = 0; i < COUNT; i++) {
      const name = key((i * step) % COUNT);
      client.pool.run(client.index.write(requestFor(client, name, `${i}`), ALWAYS));
    }
    const { records, slots } = client.pool.run(client.index.shape());
    assert.equal(records, COUNT);
    assert.deepEqual(checked(client), { problems: [], records: COUNT });
    assert.equal(scanned(client, client.index.scan()).length, COUNT);
    return records / slots;
  };
}

const short = (i: number) => `key ${10_000 + i}`;
/** No such key stands in a leaf, nor does a pivot between two of them. */
const long = (i: number) => Buffer.from(`${'x'.repeat(70)}${10_000 + i}`);

test('ascending keys leave full leaves, others those of halves', (t) => {
  for (const key of [short, long]) {
    assert.ok(filledBy(1, key)(t) > 0.8);
    assert.ok(filledBy(COUNT - 1, key)(t) < 0.6);
    assert.ok(filledBy(387, key)(t) < 0.75);
  }
});
