import assert from 'node:assert/strict';
import { test } from 'node:test';
import { traced } from '../../../store/tests/support/by-hand.ts';
import { ALWAYS } from '../../contract.ts';
import { Hotspots } from '../hotspots.ts';
import { type Client, clientOf, foundText, requestFor } from './support/client.ts';

const SHAPE = { span: 8, neighbourhood: 4, fanout: 4, hotspots: 64 };

function put(client: Client, key: string, value: string): void {
  client.pool.run(client.index.write(requestFor(client, key, value), ALWAYS));
}

/** The round trips of a search, and what it found. */
function get(client: Client, key: string): { trips: string[]; text: string | undefined } {
  const request = requestFor(client, key);
  const { trips, value } = traced(client.pool.fabric, client.index.search(request));
  return { trips, text: value ? foundText(request) : undefined };
}

test('a key that was found before takes one round trip, until somebody changes it', (t) => {
  const writer = clientOf(t, SHAPE);
  const reader = clientOf(t, SHAPE, writer.handle);
  for (let i = 0; i < 40; i++) put(writer, `key ${i}`, `value ${i}`);
  get(reader, 'key 7');
  assert.deepEqual(get(reader, 'key 7'), { trips: ['READ READ'], text: 'value 7' });
  put(writer, 'key 7', 'another');
  const { trips, text } = get(reader, 'key 7');
  assert.deepEqual(trips, ['READ READ', 'READ', 'READ']);
  assert.equal(text, 'another');
  assert.deepEqual(get(reader, 'key 7').trips, ['READ READ']);
  writer.pool.run(writer.index.remove(requestFor(writer, 'key 7')));
  assert.equal(get(reader, 'key 7').text, undefined);
  assert.deepEqual(reader.index.tree.hotspots.speculation, { asked: 5, known: 4, right: 2 });
});

test("a client's own update is what it speculates on", (t) => {
  const client = clientOf(t, SHAPE);
  put(client, 'key', 'one');
  get(client, 'key');
  put(client, 'key', 'two');
  assert.deepEqual(get(client, 'key'), { trips: ['READ READ'], text: 'two' });
});

test('a chained value is found whose link stands behind what a slot can say of its record', (t) => {
  const client = clientOf(t, SHAPE);
  for (const length of [16_288, 16_289, 16_304, 16_305]) {
    const keys = ['a', 'b'].map((letter) => letter.repeat(length));
    for (const key of keys) put(client, key, `${key[0]} `.repeat(100));
    // One request, as in a store: what it read last is still there when it speculates.
    const request = client.index.newRequest();
    for (const key of [...keys, ...keys, ...keys]) {
      request.setKey(key, client.index.hashSeed);
      assert.ok(client.pool.run(client.index.search(request)));
      client.pool.run(client.index.records.complete(request));
      assert.equal(foundText(request), `${key[0]} `.repeat(100));
    }
  }
});

test('what is hot stays, however many cold keys come by', () => {
  const hotspots = new Hotspots(8);
  hotspots.note(1, 1, 11, 12);
  for (let i = 0; i < 40; i++) assert.ok(hotspots.find(1, 1) >= 0);
  for (let i = 2; i < 200; i++) {
    hotspots.note(i, i, i, i);
    if (i % 8 === 0) hotspots.find(1, 1);
  }
  const at = hotspots.find(1, 1);
  assert.deepEqual([hotspots.low(at), hotspots.high(at)], [11, 12]);
});
