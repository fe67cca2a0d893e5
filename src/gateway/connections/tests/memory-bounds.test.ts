import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GATEWAY_LIMITS, OUTPUT_BYTES_MAX } from '../../settings.ts';
import { array, command, exchange, serverFor } from '../../tests/support/exchange.ts';
import { type SlowSocket, settle, startConnection } from '../../tests/support/slow-socket.ts';
import { Talk } from '../../tests/support/talk.ts';
import { ClientMemory } from '../client-memory.ts';

const MEBIBYTE = 1024 * 1024;
const VALUE = Buffer.alloc(MEBIBYTE, 'v');

/** The client reads on, chunk after chunk, until everything has come. */
async function readAll(socket: SlowSocket, check: () => void): Promise<number> {
  let received = 0;
  for (let idle = 0; idle < 5; ) {
    await settle();
    check();
    const bytes = socket.sent.splice(0).reduce((sum, { length }) => sum + length, 0);
    received += bytes;
    idle = bytes === 0 ? idle + 1 : 0;
    socket.release();
  }
  return received;
}

test('an MGET that names a large value 150 times is sent as its client reads', async () => {
  const { socket, store, memory, totals } = startConnection();
  store.set('big', VALUE);
  const request = `MGET ${Array<string>(150).fill('big').join(' ')}`;
  socket.receive(request, 'ECHO end');
  let held = 0;
  const received = await readAll(socket, () => {
    held = Math.max(held, memory.bytes);
  });
  const element = VALUE.length + '$1048576\r\n\r\n'.length;
  assert.equal(received, '*150\r\n'.length + 150 * element + '$3\r\nend\r\n'.length);
  assert.ok(held > OUTPUT_BYTES_MAX, `${held} bytes: nothing waited`);
  // What is under way, the value beyond it, and the request itself.
  const bound = OUTPUT_BYTES_MAX + 2 * VALUE.length + 200_000;
  assert.ok(held < bound, `${held} bytes were held, ${bound} are allowed`);
  assert.equal(memory.bytes, 0);
  assert.equal(totals.commands, 2);
});

test('a client that names values and never reads them makes the gateway read few', async () => {
  const { socket, store, memory } = startConnection();
  store.set('big', VALUE);
  socket.receive(`MGET ${Array<string>(600).fill('big').join(' ')}`);
  for (let turn = 0; turn < 50; turn++) await settle();
  assert.ok(store.calls.getMany <= 3, `${store.calls.getMany} calls`);
  assert.ok(memory.bytes < 4 * MEBIBYTE);
  socket.destroy();
  await settle();
  assert.equal(memory.bytes, 0);
});

test('an MGET whose later part fails ends its connection and says why to the hook', async () => {
  const { socket, store, failures } = startConnection();
  store.set('big', VALUE);
  socket.receive('MGET big big big big', 'ECHO end');
  await settle();
  store.failure = new Error('planted');
  await readAll(socket, () => {});
  assert.deepEqual(failures.map(String), ['Error: planted']);
  assert.ok(socket.writableEnded);
});

test('COMMAND INFO of many names is sent as its client reads', async () => {
  const { socket, memory } = startConnection();
  socket.receive(`COMMAND INFO ${Array<string>(50_000).fill('get').join(' ')}`);
  let held = 0;
  const received = await readAll(socket, () => {
    held = Math.max(held, memory.bytes - 50_000 * 137);
  });
  assert.ok(received > 4 * MEBIBYTE, String(received));
  assert.ok(held < 3 * MEBIBYTE, `${held} bytes were held beside the request`);
});

test('EXEC gathers no more than a reply may have, and runs all commands', async () => {
  const limits = { ...GATEWAY_LIMITS, replyBytesMax: 2 * MEBIBYTE };
  const { socket, store } = startConnection(limits);
  store.set('big', VALUE);
  const mget = `MGET ${Array<string>(50).fill('big').join(' ')}`;
  socket.receive('MULTI', 'GET big', mget, 'GET big', mget, 'SET a 1', 'PING', 'EXEC', 'SET b 1');
  const received = await readAll(socket, () => {});
  const first = `+OK\r\n${'+QUEUED\r\n'.repeat(6)}*6\r\n$${MEBIBYTE}\r\n`;
  assert.equal(received, first.length + MEBIBYTE + '\r\n'.length);
  assert.ok(socket.writableEnded);
  // Of each MGET no more is read than shows that it is too long.
  assert.ok(store.calls.getMany <= 4, `${store.calls.getMany} calls`);
  assert.ok(store.has('a'));
  assert.ok(!store.has('b'));
});

test('a client whose EXEC asks for too much leaves nothing behind', async (t) => {
  for (const last of ['MONITOR', 'SUBSCRIBE news', 'PSUBSCRIBE n*']) {
    const { server, store, failures } = await serverFor(t, { maxClientBytes: 4 * MEBIBYTE });
    store.set('big', Buffer.alloc(1.5 * MEBIBYTE));
    const greedy = ['MULTI', 'GET big', 'GET big', 'GET big', 'PUBLISH news 1', last, 'EXEC'];
    await exchange(server, Buffer.concat(greedy.map(command)));
    const other = new Talk(server);
    assert.equal(await other.ask('PUBLISH news 2'), ':0\r\n', last);
    assert.equal(await other.ask('PUBSUB NUMPAT'), ':0\r\n', last);
    assert.equal(await other.ask('SET a 1'), '+OK\r\n', last);
    assert.deepEqual(failures, []);
    other.socket.destroy();
  }
});

/** Requests whose ends do not come, each on a connection of its own that shares `memory`. */
function unfinished(count: number, bytes: number, memory: ClientMemory) {
  return Array.from({ length: count }, () => {
    const connection = startConnection(GATEWAY_LIMITS, memory);
    const head = `*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n$${bytes}\r\n`;
    connection.socket.push(Buffer.concat([Buffer.from(head), Buffer.alloc(bytes - 1)]));
    return connection;
  });
}

test('connections that hold unfinished requests together hold no more than is allowed', async () => {
  const memory = new ClientMemory(MEBIBYTE);
  const small = startConnection(GATEWAY_LIMITS, memory);
  small.socket.push(command('SET a 1').subarray(0, -1));
  await settle();
  const large = unfinished(100, 80_000, memory);
  await settle();
  assert.ok(memory.bytes <= MEBIBYTE, `${memory.bytes} bytes are held`);
  assert.ok(memory.bytes > MEBIBYTE / 2, `only ${memory.bytes} bytes are held`);
  const evicted = large.filter(({ totals }) => totals.evictedConnections === 1);
  assert.ok(evicted.length >= 100 - MEBIBYTE / 80_000, `${evicted.length} were evicted`);
  assert.ok(evicted.length < 100, 'all were evicted');
  const texts = new Set(evicted.map(({ socket }) => socket.sentText));
  assert.deepEqual(
    [...texts],
    ['-ERR the clients of this server hold too much memory, this one most of all\r\n'],
  );
  // The others finish, and so does a client that holds little.
  for (const { socket } of large) socket.push(Buffer.from('x\r\n'));
  small.socket.push('\n');
  await settle();
  const stored = large.filter(({ store }) => store.size === 1);
  assert.equal(stored.length + evicted.length, 100);
  assert.equal(small.socket.sentText, '+OK\r\n');
  for (const { socket } of [small, ...large]) socket.destroy();
  await settle();
  assert.equal(memory.bytes, 0);
});

test('of clients that do not read, the one that holds most goes when it is too much', async () => {
  const memory = new ClientMemory(4 * MEBIBYTE);
  const lazy = [1, 2, 3].map((mebibytes) => {
    const connection = startConnection(GATEWAY_LIMITS, memory);
    connection.store.set('big', Buffer.alloc(mebibytes * MEBIBYTE));
    connection.socket.receive('GET big');
    return connection;
  });
  await settle();
  assert.deepEqual(
    lazy.map(({ socket }) => socket.destroyed),
    [false, false, true],
  );
  assert.ok(memory.bytes <= 4 * MEBIBYTE);
  for (const { socket } of lazy) socket.destroy();
});

test('requests that wait behind an unread reply are counted with what their words take', async () => {
  const { socket, store, memory } = startConnection();
  store.set('big', Buffer.alloc(3 * MEBIBYTE));
  socket.receive('GET big', ...Array<string>(1000).fill('DEL a b c d e f g'));
  await settle();
  assert.ok(memory.bytes > 3 * MEBIBYTE + 1000 * 8 * 128, `${memory.bytes} bytes`);
  socket.destroy();
});

test('a request beyond the limit is refused when its length is announced', async (t) => {
  const { server } = await serverFor(t, { maxRequestBytes: 1 * MEBIBYTE });
  const announced = `*3\r\n$3\r\nSET\r\n$1\r\na\r\n$${MEBIBYTE + 1}\r\n`;
  assert.equal(await exchange(server, announced), '-ERR Protocol error: invalid bulk length\r\n');
  const together = `*3\r\n$3\r\nSET\r\n$1\r\na\r\n$${MEBIBYTE - 5}\r\n`;
  assert.equal(await exchange(server, together), '-ERR Protocol error: request is too large\r\n');
  const long = array('CLIENT', 'SETNAME', 'x'.repeat(2000));
  assert.equal(await exchange(server, long), '-ERR the name is too long\r\n');
});
