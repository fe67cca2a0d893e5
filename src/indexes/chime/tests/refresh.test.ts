import assert from 'node:assert/strict';
import { test } from 'node:test';
import { traced } from '../../../store/tests/support/by-hand.ts';
import { ALWAYS } from '../../contract.ts';
import { type Client, clientOf, foundText, requestFor } from './support/client.ts';

const KEYS = Array.from({ length: 400 }, (_, i) => `key ${1000 + i}`);

function put(client: Client, key: string): void {
  client.pool.run(client.index.write(requestFor(client, key, key), ALWAYS));
}

test('while an operation reads its path again, others use the cached nodes', (t) => {
  const writer = clientOf(t, { span: 16, neighbourhood: 8, fanout: 4, inlineBytes: 24 });
  const reader = clientOf(t, {}, writer.handle);
  for (const key of KEYS) put(writer, key);
  for (const key of KEYS) reader.pool.run(reader.index.search(requestFor(reader, key)));
  // Splits the leaf of one key until the reader's path to it is out of date.
  const moved = KEYS[200];
  for (let i = 0; i < 40; i++) put(writer, `${moved}-${i}`);

  const others = [KEYS[0], KEYS[100], KEYS[300], KEYS[399]];
  const search = reader.index.search(requestFor(reader, `${moved}-39`));
  let steps = 0;
  for (let step = search.next(); !step.done; step = search.next()) {
    steps++;
    reader.pool.fabric.execute(step.value);
    for (const key of others) {
      const request = requestFor(reader, key);
      const { trips } = traced(reader.pool.fabric, reader.index.search(request));
      assert.equal(foundText(request), key);
      assert.equal(trips.length, 1, `${key} beside step ${steps}: ${trips}`);
    }
  }
  assert.ok(steps > 3, `the path was read again: ${steps} steps`);
});

test('an operation that reads the root link late keeps what others have cached', (t) => {
  const writer = clientOf(t, { span: 16, neighbourhood: 8, fanout: 4, inlineBytes: 24 });
  const reader = clientOf(t, {}, writer.handle);
  for (const key of KEYS) put(writer, key);

  const late = reader.index.search(requestFor(reader, KEYS[0]));
  let step = late.next();
  const [other] = KEYS.slice(-1);
  reader.pool.run(reader.index.search(requestFor(reader, other)));
  for (; !step.done; step = late.next()) reader.pool.fabric.execute(step.value);
  const again = reader.index.search(requestFor(reader, other));
  assert.equal(traced(reader.pool.fabric, again).trips.length, 1);
});
