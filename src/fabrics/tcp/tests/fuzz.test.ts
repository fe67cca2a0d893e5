import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { test } from 'node:test';
import fc from 'fast-check';
import { StepwellError } from '../../../errors.ts';
import { Batch, CAS, READ, Scratch, WRITE } from '../../../verbs/index.ts';
import { MemorySource } from '../../shared/memory-source.ts';
import { BeyondMemory, NodeMemory } from '../node/node-memory.ts';
import type { NodeServer } from '../node/node-server.ts';
import { BATCH, HEARTBEAT, resultBytes, WireError } from '../wire.ts';
import { frameOf, greet, KINDS, type RawVerb, receive, verbsOf } from './support/raw.ts';
import {
  connectTo,
  execute,
  REGION_BYTES,
  rawConnection,
  scratchOf,
  startNode,
} from './support/rig.ts';

const verbs = fc.record({
  kind: fc.constantFrom(...KINDS),
  region: fc.integer({ min: 0, max: 3 }),
  offset: fc.oneof(
    fc.integer({ min: 0, max: 64 }).map((n) => 8 * n),
    fc.integer({ min: -64, max: 64 }).map((n) => REGION_BYTES + n),
    fc.integer({ min: 0, max: 2 ** 32 - 1 }),
  ),
  bytes: fc.oneof(
    fc.constant(8),
    fc.integer({ min: 0, max: 300 }),
    fc.integer({ max: 2 ** 19 - 1, min: 0 }),
  ),
  fill: fc.integer({ min: 0, max: 255 }),
});

/** What the wire allows, said once more in another way. */
function verdict({ kind, region, offset, bytes }: RawVerb): 'fine' | 'beyond' | 'broken' {
  const wellFormed =
    kind === WRITE || (offset % 8 === 0 && (kind === READ ? bytes % 8 === 0 : bytes === 8));
  if (!wellFormed) return 'broken';
  return region < 2 && offset <= REGION_BYTES - bytes ? 'fine' : 'beyond';
}

test('a verb is executed exactly when all of it is inside a region', () => {
  const memory = new NodeMemory(MemorySource.allocate(2, REGION_BYTES), 2, REGION_BYTES);
  const seen = { fine: 0, beyond: 0, broken: 0 };
  fc.assert(
    fc.property(verbs, (verb) => {
      const content = verbsOf([verb]);
      const input = new Scratch(content.length + 8);
      input.u8.set(content);
      const expected = verdict(verb);
      seen[expected]++;
      const inspect = () => memory.inspect(input.i32, 0, content.length);
      if (expected === 'broken') return assert.throws(inspect, WireError);
      if (expected === 'beyond') return assert.throws(inspect, BeyondMemory);
      const results = inspect();
      assert.equal(results, resultBytes(verb.kind, verb.bytes));
      const output = new Scratch(results + 16);
      output.u8.fill(0xee);
      memory.execute(input, 0, content.length, output, 8);
      assert.ok(output.u8.subarray(0, 8).every((byte) => byte === 0xee));
      assert.ok(output.u8.subarray(8 + results).every((byte) => byte === 0xee));
    }),
    { numRuns: 5000 },
  );
  assert.ok(Math.min(...Object.values(seen)) > 100, JSON.stringify(seen));
});

test('arbitrary words are refused or executed inside the regions', () => {
  const memory = new NodeMemory(MemorySource.allocate(2, REGION_BYTES), 2, REGION_BYTES);
  fc.assert(
    fc.property(fc.array(fc.integer(), { maxLength: 20 }), (words) => {
      const input = new Scratch(256);
      input.i32.set(words);
      const end = 8 * (words.length >> 1);
      let results = 0;
      try {
        results = memory.inspect(input.i32, 0, end);
      } catch (error) {
        assert.ok(error instanceof WireError || error instanceof BeyondMemory);
        return;
      }
      memory.execute(input, 0, end, new Scratch(results + 8), 0);
    }),
    { numRuns: 5000 },
  );
});

/** Frames whose answers depend on nothing that came before. */
function capture(): { sent: Buffer; answer: number } {
  const write = { kind: WRITE, region: 1, offset: 800, bytes: 13, fill: 5 };
  const read = { kind: READ, region: 1, offset: 800, bytes: 24, fill: 0 };
  const swap = { kind: CAS, region: 0, offset: 8, bytes: 8, fill: 0 };
  const frames = [
    frameOf(BATCH, 1, verbsOf([write, read, swap])),
    frameOf(HEARTBEAT, 2, new Uint8Array(0)),
    frameOf(BATCH, 3, verbsOf([read])),
    frameOf(BATCH, 4, verbsOf([{ ...read, region: 7 }])),
    frameOf(BATCH, 5, verbsOf([read, read])),
  ];
  return { sent: Buffer.concat(frames), answer: 8 + 24 + 8 + 8 + (8 + 24) + (8 + 48) };
}

test('however frames are cut or merged, the answers are the same', async (scope) => {
  const { server } = await startNode(scope);
  const { sent, answer } = capture();
  let session = 10;
  const ask = async (cuts: number[]) => {
    const socket = await rawConnection(scope, server.port);
    await greet(socket, session++);
    socket.setNoDelay(true);
    let from = 0;
    for (const cut of [...new Set(cuts), sent.length].sort((a, b) => a - b)) {
      if (cut <= from) continue;
      await new Promise<unknown>((resolve) => socket.write(sent.subarray(from, cut), resolve));
      await new Promise((resolve) => setImmediate(resolve));
      from = cut;
    }
    const reply = await receive(socket, answer + 8);
    socket.destroy();
    return reply.toString('hex');
  };
  const whole = await ask([]);
  assert.equal(await ask(Array.from({ length: sent.length }, (_, i) => i)), whole, 'bytewise');
  const cuts = fc.array(fc.integer({ min: 1, max: sent.length - 1 }), { maxLength: 6 });
  await fc.assert(
    fc.asyncProperty(cuts, async (places) => assert.equal(await ask(places), whole)),
    { numRuns: 40 },
  );
});

interface Change {
  at: number;
  byte: number;
  how: 'set' | 'insert' | 'remove';
}

const changes = fc.array(
  fc.record({
    at: fc.nat(400),
    byte: fc.integer({ min: 0, max: 255 }),
    how: fc.constantFrom('set', 'insert', 'remove') as fc.Arbitrary<Change['how']>,
  }),
  { minLength: 1, maxLength: 5 },
);

function changed(bytes: Buffer, wishes: readonly Change[]): Buffer {
  const list = [...bytes];
  for (const { at, byte, how } of wishes) {
    const place = at % Math.max(1, list.length);
    if (how === 'set') list[place] = byte;
    else list.splice(place, how === 'remove' ? 1 : 0, ...(how === 'insert' ? [byte] : []));
  }
  return Buffer.from(list);
}

test('whatever one client sends, the others are unharmed', async (scope) => {
  const { server } = await startNode(scope);
  const other = await connectTo(scope, [server]);
  const { sent } = capture();
  let session = 1000;
  let added = 0n;
  await fc.assert(
    fc.asyncProperty(changes, fc.boolean(), async (wishes, greeted) => {
      const socket = await rawConnection(scope, server.port);
      if (greeted) await greet(socket, session++);
      socket.end(changed(sent, wishes));
      // The last 64 KiB belong to the other client; a changed WRITE may hit what is before.
      const words = scratchOf([1n, 0n]);
      await execute(other, new Batch().faa(REGION_BYTES - 8, words, 0));
      assert.equal(words.i64[1], added++);
      socket.destroy();
    }),
    { numRuns: 300 },
  );
});

test('whatever a node answers, the client gets a result or a clear error', async (scope) => {
  const { server } = await startNode(scope);
  let wishes: readonly Change[] = [];
  let skip = 0;
  const proxy = createServer((client) => {
    const node = connect({ port: server.port, host: '127.0.0.1' });
    let passed = 0;
    client.pipe(node);
    node.on('data', (chunk) => {
      // The greeting stays whole in half of the runs, so that later frames are reached.
      const before = passed;
      passed += chunk.length;
      client.write(before >= skip ? changed(chunk, wishes) : chunk);
    });
    for (const [one, two] of [
      [client, node],
      [node, client],
    ]) {
      one.on('error', () => two.destroy());
      one.on('close', () => two.destroy());
    }
  });
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  scope.after(() => {
    proxy.close();
  });
  const place = { port: (proxy.address() as { port: number }).port } as NodeServer;
  await fc.assert(
    fc.asyncProperty(changes, fc.boolean(), async (mutations, late) => {
      wishes = mutations;
      skip = late ? 100 : 0;
      try {
        const fabric = await connectTo(scope, [place], { timeoutMs: 60 });
        const back = new Scratch(4096);
        const batch = new Batch().read(64, 4096, back, 0).faa(8, scratchOf([1n, 0n]), 0);
        await Promise.all([execute(fabric, batch), fabric.call(0, 3, new Uint8Array(16))]);
        fabric.close();
      } catch (error) {
        assert.ok(error instanceof StepwellError, String(error));
      }
    }),
    { numRuns: 120 },
  );
});
