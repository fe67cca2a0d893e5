/** Waits for a change of a word: what ends them, and what they cannot do to the node. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { StepwellError } from '../../../../errors.ts';
import { addressOf, Batch, ROUND_TRIPS, Scratch } from '../../../../verbs/index.ts';
import { SESSION_BYTES, writeSession } from '../../method-arguments.ts';
import { AWAIT_CHANGE, IS_CONNECTED, REVOKE } from '../../node-methods.ts';
import { connectTo, execute, REGION_BYTES, scratchOf, startNode } from '../../tests/support/rig.ts';
import { verbWord } from '../../wire.ts';

const READ_VERB = 0;
const WRITE_VERB = 1;
/** Longer than any test: such a wait ends by a change, or with its connection. */
const LONG = 900_000;
const WORD = 64;

/** Waits while the word is 0 and then READs it and the next one. */
function waiting(into: Scratch, microseconds = LONG): Batch {
  into.i64[2] = 0n;
  return new Batch().awaitChange(WORD, microseconds, into, 16).read(WORD, 16, into, 0);
}

/** The request of a call: this wait, and verbs of 8 bytes at these offsets. */
function requestOf(microseconds: number, verbs: readonly (readonly [number, number, number])[]) {
  const request = new Scratch(16 + 8 * verbs.length);
  request.i32[0] = microseconds;
  verbs.forEach(([kind, offset, bytes], i) => {
    request.i32[4 + 2 * i] = verbWord(kind, 0, bytes);
    request.i32[5 + 2 * i] = offset;
  });
  return request.u8.subarray(0, 16 + 8 * verbs.length);
}

test('a wait goes with the WRITEs before it, and ends when another client changes the word', async (scope) => {
  const { server } = await startNode(scope);
  const [fabric, other] = [await connectTo(scope, [server]), await connectTo(scope, [server])];
  const into = new Scratch(24);
  const batch = new Batch().write(8, 8, scratchOf([7n]), 0).append(waiting(into));
  const answered = execute(fabric, batch);
  // Others of the same connection go on, and see that the WRITE was executed.
  const seen = new Scratch(8);
  await execute(fabric, new Batch().read(8, 8, seen, 0));
  assert.equal(seen.i64[0], 7n);
  await execute(other, new Batch().write(WORD, 16, scratchOf([5n, 6n]), 0));
  await answered;
  assert.deepEqual([...into.i64.subarray(0, 2)], [5n, 6n]);
  assert.equal(fabric.traffic.rows[ROUND_TRIPS], 2);
});

test('a wait ends when a process that maps the memory changes the word', async (scope) => {
  const { server, local } = await startNode(scope);
  const fabric = await connectTo(scope, [server]);
  for (const round of [1n, 2n, 3n]) {
    local.execute(new Batch().write(WORD, 8, scratchOf([0n]), 0));
    const into = new Scratch(24);
    const answered = execute(fabric, waiting(into));
    await execute(fabric, new Batch().read(0, 8, new Scratch(8), 0));
    local.execute(new Batch().write(WORD, 8, scratchOf([round]), 0));
    await answered;
    assert.equal(into.i64[0], round);
  }
});

test('a wait ends by itself, and at once when the word has changed before', async (scope) => {
  const { server, local } = await startNode(scope);
  const fabric = await connectTo(scope, [server]);
  const into = new Scratch(24);
  await execute(fabric, waiting(into, 1500));
  assert.equal(into.i64[0], 0n);
  local.execute(new Batch().write(WORD, 8, scratchOf([1n]), 0));
  await execute(fabric, waiting(into));
  assert.equal(into.i64[0], 1n);
});

test('over two nodes a wait follows the verbs before it', async (scope) => {
  const nodes = [await startNode(scope), await startNode(scope)];
  const fabric = await connectTo(
    scope,
    nodes.map(({ server }) => server),
  );
  const into = new Scratch(24);
  const elsewhere = addressOf(1, 8);
  const batch = new Batch()
    .write(elsewhere, 8, scratchOf([7n]), 0)
    .append(waiting(into))
    .read(elsewhere, 8, into, 16);
  const answered = execute(fabric, batch);
  await execute(fabric, new Batch().read(8, 8, new Scratch(8), 0));
  nodes[0].local.execute(new Batch().write(WORD, 8, scratchOf([3n]), 0));
  await answered;
  assert.deepEqual([...into.i64.subarray(0, 3)], [3n, 0n, 7n]);
});

test('a node that knows no waits answers the READs as verbs', async (scope) => {
  const { server, local } = await startNode(scope);
  const fabric = await connectTo(scope, [server]);
  const call = server.call.bind(server);
  server.call = (connection, method, request) => {
    if (method === AWAIT_CHANGE) throw new StepwellError('SW_UNSUPPORTED', 'no such method');
    return call(connection, method, request);
  };
  local.execute(new Batch().write(WORD + 8, 8, scratchOf([9n]), 0));
  const into = new Scratch(24);
  await execute(fabric, waiting(into));
  assert.deepEqual([...into.i64.subarray(0, 2)], [0n, 9n]);
});

test('an answer of another length than the READs fails the batch', async (scope) => {
  const { server } = await startNode(scope);
  const fabric = await connectTo(scope, [server]);
  const call = server.call.bind(server);
  for (const bytes of [8, 24]) {
    server.call = (connection, method, request) => {
      return method === AWAIT_CHANGE ? new Uint8Array(bytes) : call(connection, method, request);
    };
    const code = 'SW_PROTOCOL';
    await assert.rejects(execute(fabric, waiting(new Scratch(24))), { code });
  }
});

test('a short pause of another operation ends before a long wait does', async (scope) => {
  const { server, local } = await startNode(scope);
  const fabric = await connectTo(scope, [server]);
  let ended = false;
  const answered = execute(fabric, waiting(new Scratch(24))).then(() => {
    ended = true;
  });
  await execute(fabric, new Batch().read(0, 8, new Scratch(8), 0));
  await execute(fabric, new Batch().pause(0, new Scratch(8)));
  assert.equal(ended, false);
  local.execute(new Batch().write(WORD, 8, scratchOf([1n]), 0));
  await answered;
});

test('a client has 64 waits; a further one is answered at once, and other clients have theirs', async (scope) => {
  const { server, local } = await startNode(scope);
  const [fabric, other] = [await connectTo(scope, [server]), await connectTo(scope, [server])];
  let ended = 0;
  const waits = Array.from({ length: 64 }, async () => {
    await execute(fabric, waiting(new Scratch(24)));
    ended++;
  });
  await execute(fabric, waiting(new Scratch(24)));
  const others = execute(other, waiting(new Scratch(24)));
  await execute(other, new Batch().read(0, 8, new Scratch(8), 0));
  assert.equal(ended, 0);
  local.execute(new Batch().write(WORD, 8, scratchOf([1n]), 0));
  await Promise.all([...waits, others]);
});

test('a wait beyond the memory, or for more than READs, is refused; the connection goes on', async (scope) => {
  const { server, memory } = await startNode(scope);
  const fabric = await connectTo(scope, [server]);
  const word = [READ_VERB, WORD, 8] as const;
  const refused = [
    ['SW_POOL_CORRUPT', [[READ_VERB, REGION_BYTES, 8]]],
    ['SW_POOL_CORRUPT', [word, [READ_VERB, REGION_BYTES - 8, 16]]],
    ['SW_PROTOCOL', []],
    ['SW_PROTOCOL', [[READ_VERB, WORD, 16]]],
    ['SW_PROTOCOL', [[READ_VERB, WORD + 4, 8]]],
    ['SW_PROTOCOL', [word, [WRITE_VERB, 0, 0]]],
    ['SW_PROTOCOL', [word, [READ_VERB, 0, 8192]]],
  ] as const;
  for (const [code, verbs] of refused) {
    await assert.rejects(fabric.call(0, AWAIT_CHANGE, requestOf(LONG, verbs)), { code });
  }
  // Verbs that read nothing take memory of the node, too.
  const many = Array.from({ length: 513 }, () => [READ_VERB, WORD, 0] as const);
  const long = requestOf(LONG, [word, ...many]);
  await assert.rejects(fabric.call(0, AWAIT_CHANGE, long), { code: 'SW_PROTOCOL' });
  const into = new Scratch(24);
  const batch = waiting(into, 1);
  for (let i = 0; i < 2000; i++) batch.read(WORD, 0, into, 0);
  await execute(fabric, batch);
  // Whatever a client asks for, no wait is longer than a second.
  const longest = requestOf(2 ** 31 - 1, [word]);
  assert.equal((await fabric.call(0, AWAIT_CHANGE, longest)).length, 0);
  assert.equal((await fabric.call(0, AWAIT_CHANGE, requestOf(-1, [word, word]))).length, 8);
  assert.equal(memory.changes, 0);
});

test('the waits of a client that is revoked or closed are dropped', async (scope) => {
  const { server, local } = await startNode(scope);
  const [other, closed] = [await connectTo(scope, [server]), await connectTo(scope, [server])];
  const fabric = await connectTo(scope, [server]);
  const lost = [fabric, closed].map((one) => {
    return assert.rejects(execute(one, waiting(new Scratch(24))));
  });
  await execute(fabric, new Batch().read(0, 8, new Scratch(8), 0));
  await execute(closed, new Batch().read(0, 8, new Scratch(8), 0));
  const session = new Uint8Array(SESSION_BYTES);
  writeSession(session, fabric.session, false);
  await other.call(0, REVOKE, session);
  closed.close();
  await Promise.all(lost);
  writeSession(session, other.session, false);
  local.execute(new Batch().write(WORD, 8, scratchOf([1n]), 0));
  assert.equal((await other.call(0, IS_CONNECTED, session))[0], 1);
});
