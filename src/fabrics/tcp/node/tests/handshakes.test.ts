/** Connections that were not let in: how many, for how long, and what a guess costs. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { Batch } from '../../../../verbs/index.ts';
import { readChallenge } from '../../handshake.ts';
import { arrived, CHALLENGE_FRAME_BYTES, greet, receive } from '../../tests/support/raw.ts';
import {
  connectTo,
  execute,
  rawConnection,
  scratchOf,
  startNode,
} from '../../tests/support/rig.ts';
import { CHALLENGE, FAILURE, typeOf, WIRE_VERSION } from '../../wire.ts';
import { FREE_GUESSES, Guesses, hasWork } from '../guesses.ts';

const secret = Buffer.from('correct horse');

test('a handshake has a deadline, whatever drips meanwhile', async (scope) => {
  const { server } = await startNode(scope, { secret, handshakeMs: 200 });
  const client = await connectTo(scope, [server], { secret });
  const raw = await rawConnection(scope, server.port);
  raw.resume();
  // A PROOF that never ends, a byte at a time.
  const drip = setInterval(() => raw.write(Buffer.of(2)), 10);
  scope.after(() => clearInterval(drip));
  await once(raw, 'close');
  await execute(client, new Batch().faa(64, scratchOf([1n, 0n]), 0));
});

test('strangers take no client the room', async (scope) => {
  const { server } = await startNode(scope, { secret, maxHandshakes: 4, maxConnections: 2 });
  const client = await connectTo(scope, [server], { secret });
  const strangers = await Promise.all(
    Array.from({ length: 4 }, () => rawConnection(scope, server.port)),
  );
  await Promise.all(strangers.map((socket) => receive(socket, CHALLENGE_FRAME_BYTES)));
  const gone = once(strangers[0], 'close');
  strangers[0].resume();
  // The oldest one goes; a client comes in, and needs its room no longer.
  const second = await connectTo(scope, [server], { secret });
  await gone;
  const last = await rawConnection(scope, server.port);
  assert.equal(typeOf((await receive(last, CHALLENGE_FRAME_BYTES)).readUInt32LE(0)), CHALLENGE);
  for (const stranger of strangers.slice(1)) assert.equal(stranger.readableEnded, false);
  for (const fabric of [client, second]) {
    await execute(fabric, new Batch().faa(64, scratchOf([1n, 0n]), 0));
  }
  // They who were let in have a bound of their own.
  const third = connectTo(scope, [server], { secret });
  await assert.rejects(third, { code: 'SW_TOO_MANY_CLIENTS' });
});

test('guesses cost work after the first, and clients with the secret get in meanwhile', async (scope) => {
  const guesses = new Guesses(() => 0, 6);
  const { server } = await startNode(scope, { secret, guesses });
  const sockets = await Promise.all(
    Array.from({ length: FREE_GUESSES + 20 }, () => rawConnection(scope, server.port)),
  );
  // An open socket may still wait to be accepted. Once it has its challenge, none asks for work.
  await Promise.all(sockets.map((socket) => arrived(socket, CHALLENGE_FRAME_BYTES)));
  const answers: number[] = [];
  for (const [i, socket] of sockets.entries()) {
    const answer = await greet(socket, i + 1, 'wrong');
    answers.push(/SW_UNAUTHENTICATED/.test(answer.toString('latin1')) ? FAILURE : CHALLENGE);
  }
  const looked = answers.filter((type) => type === FAILURE).length;
  assert.equal(looked, FREE_GUESSES + 1, 'the others are asked for work first');
  const code = 'SW_UNAUTHENTICATED';
  await assert.rejects(connectTo(scope, [server], { secret: Buffer.from('wrong') }), { code });
  const client = await connectTo(scope, [server], { secret });
  await execute(client, new Batch().faa(64, scratchOf([1n, 0n]), 0));
});

test('without the work the right secret is not looked at either', async (scope) => {
  const guesses = new Guesses(() => 0, 16);
  const { server } = await startNode(scope, { secret, guesses });
  for (let i = 0; i <= FREE_GUESSES; i++) guesses.note();
  const raw = await rawConnection(scope, server.port);
  const answer = await greet(raw, 7, 'correct horse');
  assert.match(answer.toString('latin1'), /without the work/);
});

test('wrong proofs are forgotten', () => {
  let now = 0;
  const guesses = new Guesses(() => now);
  for (let i = 0; i < FREE_GUESSES; i++) guesses.note();
  assert.equal(guesses.workBits, 0);
  guesses.note();
  assert.ok(guesses.workBits > 0);
  now += 2000;
  assert.equal(guesses.workBits, 0);
  for (let i = 0; i < 100_000; i++) guesses.note();
  now += 59_000;
  assert.ok(guesses.workBits > 0);
  now += 2000;
  assert.equal(guesses.workBits, 0, 'a minute after however many');
});

test('work is in as many nonces as its bits say', () => {
  const node = new Uint8Array(32).fill(1);
  const nonces = Array.from({ length: 2000 }, (_, i) => {
    const nonce = new Uint8Array(32);
    new DataView(nonce.buffer).setUint32(0, i);
    return nonce;
  });
  const found = nonces.filter((nonce) => hasWork(node, nonce, 4)).length;
  // 125 on average, with a deviation of 11; the nonces are always the same.
  assert.ok(found > 80 && found < 170, `${found} of 2000`);
  assert.ok(nonces.every((nonce) => hasWork(node, nonce, 0)));
});

test('a client does not work for a node without bound', async () => {
  const content = new Uint8Array(56);
  const view = new DataView(content.buffer);
  view.setUint32(0, 0x50_54_57_53, true);
  view.setUint32(4, WIRE_VERSION, true);
  view.setUint32(20, 16, true);
  assert.equal(readChallenge(content).workBits, 16);
  view.setUint32(20, 17, true);
  assert.throws(() => readChallenge(content), /17 bits of work/);
});
