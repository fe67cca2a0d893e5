import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { fakeStore } from '../../tests/support/fake-store.ts';
import { MessageRing, RING_SLOTS } from '../message-ring.ts';

function rings() {
  const store = fakeStore();
  const { operations, pool } = store;
  const writer = new MessageRing(operations, Buffer.alloc(8, 1));
  const reader = new MessageRing(operations, Buffer.alloc(8, 2));
  const send = (text: string, ring = writer) =>
    pool.run(ring.append(Buffer.from('channel'), Buffer.from(text)));
  const begin = () => reader.begin(pool.run(reader.last()) as number);
  const read = () => {
    const messages: string[] = [];
    pool.run(reader.read((channel, message) => messages.push(`${channel} ${message}`)));
    return messages;
  };
  return { store, reader, send, begin, read };
}

/** The clock stands still but where a test moves it. */
function frozen(t: TestContext): { pass(ms: number): void } {
  t.mock.timers.enable({ apis: ['Date'], now: Date.now() });
  return { pass: (ms) => t.mock.timers.tick(ms) };
}

test('a reader gets what comes after it began, in order', () => {
  const { reader, send, begin, read } = rings();
  send('before');
  begin();
  send('1');
  send('2');
  assert.deepEqual(read(), ['channel 1', 'channel 2']);
  assert.deepEqual(read(), []);
  assert.equal(reader.lost, 0);
});

test('a reader skips what it has written itself', () => {
  const { reader, send, begin, read } = rings();
  begin();
  send('own', reader);
  send('1');
  assert.deepEqual(read(), ['channel 1']);
});

test('a reader that is slow loses the oldest messages, and counts them', () => {
  const { reader, send, begin, read } = rings();
  begin();
  for (let i = 0; i < RING_SLOTS + 10; i++) send(String(i));
  const messages = read();
  assert.equal(messages.length, RING_SLOTS);
  assert.equal(messages[0], 'channel 10');
  assert.equal(reader.lost, 10);
});

test('a message that is not written yet is waited for, but not for ever', (t) => {
  const time = frozen(t);
  const { store, reader, send, begin, read } = rings();
  begin();
  send('1');
  // A writer that has its number and writes no message.
  store.increment('next', 1n);
  send('3');
  assert.deepEqual(read(), ['channel 1']);
  time.pass(900);
  assert.deepEqual(read(), []);
  assert.equal(reader.lost, 0);
  time.pass(200);
  assert.deepEqual(read(), ['channel 3']);
  assert.equal(reader.lost, 1);
});

test('messages that are missing at the same time are waited for together', (t) => {
  const time = frozen(t);
  const { store, reader, send, begin, read } = rings();
  begin();
  for (let i = 0; i < 5; i++) {
    store.increment('next', 1n);
    send(`${2 * i + 2}`);
  }
  assert.deepEqual(read(), []);
  time.pass(1100);
  assert.deepEqual(
    read(),
    [2, 4, 6, 8, 10].map((number) => `channel ${number}`),
  );
  assert.equal(reader.lost, 5);
  // One that goes missing later is waited for again.
  store.increment('next', 1n);
  send('12');
  assert.deepEqual(read(), []);
});

test('what is no message is given up', (t) => {
  const time = frozen(t);
  const { store, reader, send, begin, read } = rings();
  begin();
  send('1');
  store.set('slot:1', 'damaged');
  send('2');
  read();
  time.pass(1100);
  assert.deepEqual(read(), ['channel 2']);
  assert.equal(reader.lost, 1);
});

test('messages go when their time has come', () => {
  const { store, send } = rings();
  send('1');
  const { expiresAt = 0 } = store.metadata('slot:1') ?? {};
  assert.ok(expiresAt > Date.now() + 50_000 && expiresAt <= Date.now() + 60_000);
});
