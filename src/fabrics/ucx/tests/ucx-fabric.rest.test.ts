import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { hasCode, type StepwellError } from '../../../errors.ts';
import type { RunningNode } from '../../../store/servers/memory-node.ts';
import { rejectsCode } from '../../../store/tests/support/codes.ts';
import { addressOf, Batch, Scratch, swapped } from '../../../verbs/index.ts';
import { loadKoffi } from '../../shared/libc.ts';
import { MemorySource } from '../../shared/memory-source.ts';
import { Flight } from '../../tcp/client/flight.ts';
import { QueuePair } from '../../tcp/client/queue-pair.ts';
import { TcpFabric } from '../../tcp/client/tcp-fabric.ts';
import { SESSION_BYTES, writeSession } from '../../tcp/method-arguments.ts';
import type { DataPath } from '../../tcp/node/data-path.ts';
import { NodeMemory } from '../../tcp/node/node-memory.ts';
import { NodeServer } from '../../tcp/node/node-server.ts';
import { ATTACH, REVOKE } from '../../tcp/node-methods.ts';
import { execute, type Scope, scratchOf } from '../../tcp/tests/support/rig.ts';
import { UcxContext } from '../binding/context.ts';
import { isFailure, loadUcx } from '../binding/library.ts';
import { Pinned } from '../binding/structs.ts';
import { connectUcx } from '../client/connect.ts';
import { UcxClient } from '../client/ucx-client.ts';
import { UcxPair } from '../client/ucx-pair.ts';
import { type LentMemory, readLentMemory, ServedSession } from '../lent-memory.ts';
import { transportsOf } from '../transports.ts';
import { startUcxNode, ucxMissing } from './support/nodes.ts';

const REGION_BYTES = 2 ** 20;
const HOST = '127.0.0.1';
const M_PERTURB = -6;
// Little room for answers, before the library is loaded: some are given late (see below).
process.env.UCX_TCP_SNDBUF = '32k';
process.env.UCX_TCP_RCVBUF = '32k';
const missing = ucxMissing();
// So that what the library forgets to set is garbage, and no zero by chance.
if (!missing) loadKoffi().load(null).func('int mallopt(int, int)')(M_PERTURB, 0x55);

const running = new Map<string, Promise<RunningNode>>();
after(async () => {
  for (const node of running.values()) await (await node).stop();
});

/** One for all tests of a kind: each takes other words. */
function nodeOf(transports: string, number = 0): Promise<RunningNode> {
  const name = `${transports} ${number}`;
  const options = { size: 2 * REGION_BYTES, regionSize: REGION_BYTES };
  const node = running.get(name) ?? startUcxNode(transports, options);
  running.set(name, node);
  return node;
}

async function connect(scope: Scope, ...nodes: RunningNode[]): Promise<TcpFabric> {
  const fabric = await connectUcx(nodes.map(({ port }) => ({ host: HOST, port })));
  scope.after(() => fabric.close());
  return fabric;
}

async function readWord(fabric: TcpFabric, address: number): Promise<bigint> {
  const scratch = new Scratch(8);
  await execute(fabric, new Batch().read(address, 8, scratch, 0));
  return scratch.i64[0];
}

for (const transports of ['tcp', 'posix']) {
  test(`verbs of one batch are executed in order (${transports})`, {
    skip: missing,
  }, async (scope) => {
    const fabric = await connect(scope, await nodeOf(transports));
    const at = addressOf(1, 4096);
    const scratch = scratchOf([1n, 2n ** 40n, 2n ** 40n, -(2n ** 62n), 0n, -1n, 0n, 0n], 128);
    const batch = new Batch()
      .write(at, 8, scratch, 0)
      .write(at, 8, scratch, 8)
      .cas(at, scratch, 16)
      .faa(at, scratch, 40)
      .read(at, 8, scratch, 56);
    await execute(fabric, batch);
    assert.ok(swapped(scratch, 16));
    assert.equal(scratch.i64[6], -(2n ** 62n), 'the FAA tells the old value');
    assert.equal(scratch.i64[7], -(2n ** 62n) - 1n);
    scratch.i64[2] = 5n;
    await execute(fabric, new Batch().cas(at, scratch, 16));
    assert.ok(!swapped(scratch, 16));
    assert.equal(scratch.i64[4], -(2n ** 62n) - 1n, 'a CAS in vain tells what it found');
  });

  test(`a READ sees nothing of an atomic behind it (${transports})`, {
    skip: missing,
  }, async (scope) => {
    const fabric = await connect(scope, await nodeOf(transports));
    const at = addressOf(0, 8192);
    const scratch = scratchOf([1n], 4096);
    const long = new Scratch(2 ** 19);
    for (let round = 0n; round < 20n; round++) {
      // Answers to long READs have no room, so that the next READ is answered late.
      const batch = new Batch().read(addressOf(1, 0), 2 ** 19, long, 0);
      batch.read(at, 8, scratch, 64).faa(at, scratch, 0);
      await execute(fabric, batch);
      assert.equal(scratch.i64[8], round);
      assert.equal(scratch.i64[1], round);
    }
  });

  test(`long verbs, and many batches in flight (${transports})`, {
    skip: missing,
  }, async (scope) => {
    const fabric = await connect(scope, await nodeOf(transports), await nodeOf(transports, 1));
    const long = new Scratch(800_000);
    for (let i = 0; i < long.i32.length; i++) long.i32[i] = i * 2_654_435_761;
    const back = new Scratch(800_000);
    // Region 2 is the second one of the first node, region 3 of the second.
    for (const region of [2, 3]) {
      await execute(fabric, new Batch().write(addressOf(region, 64), 800_000, long, 0));
      back.u8.fill(0);
      await execute(fabric, new Batch().read(addressOf(region, 64), 800_000, back, 0));
      assert.ok(Buffer.from(back.u8).equals(long.u8), `region ${region}`);
    }
    const counter = addressOf(1, 512);
    const adds = Array.from({ length: 2000 }, () => scratchOf([3n], 64));
    await Promise.all(adds.map((one) => execute(fabric, new Batch().faa(counter, one, 0))));
    assert.equal(await readWord(fabric, counter), 6000n);
    assert.equal(new Set(adds.map(({ i64 }) => i64[1])).size, 2000);
  });

  test(`single bytes are written alone (${transports})`, { skip: missing }, async (scope) => {
    const fabric = await connect(scope, await nodeOf(transports));
    const at = addressOf(0, 1024);
    const scratch = scratchOf([-1n, 0n]);
    await execute(fabric, new Batch().write(at, 8, scratch, 0).write(at + 3, 3, scratch, 8));
    assert.equal(BigInt.asUintN(64, await readWord(fabric, at)), 0xffff_0000_00ff_ffffn);
  });

  test(`an address beyond the memory fails its batch alone (${transports})`, {
    skip: missing,
  }, async (scope) => {
    const fabric = await connect(scope, await nodeOf(transports));
    const scratch = scratchOf([77n, 0n, 0n], 4096);
    const good = addressOf(0, 2048);
    const beyond = [
      addressOf(0, REGION_BYTES),
      addressOf(2, 0),
      addressOf(0, REGION_BYTES - 8) + 4,
    ];
    for (const address of beyond) {
      const batch = new Batch().write(good, 8, scratch, 0).read(address, 8, scratch, 8);
      const other = execute(fabric, new Batch().read(good, 8, scratch, 64));
      await rejectsCode('SW_POOL_CORRUPT', () => execute(fabric, batch));
      await other;
    }
    assert.equal(await readWord(fabric, good), 0n, 'nothing of a refused batch is executed');
  });

  test(`a revoked client reaches nothing with what it has kept (${transports})`, {
    skip: missing,
  }, async (scope) => {
    const node = await nodeOf(transports);
    const witness = await connect(scope, node);
    const at = addressOf(0, 16_384);
    const stranger = await Stranger.attach(scope, node.port);
    assert.ok(stranger.writes(16_384, 1));
    assert.equal(await readWord(witness, at), 1n);
    const session = new Uint8Array(SESSION_BYTES);
    writeSession(session, stranger.session, false);
    await witness.call(0, REVOKE, session);
    // By the endpoint that it has, and by a new one to the address that it knows.
    stranger.writes(16_384, 2);
    assert.equal(await readWord(witness, at), 1n);
    if (stranger.reconnects()) stranger.writes(16_384, 3);
    assert.equal(await readWord(witness, at), 1n);
    // It may open a session of its own as ever, and what it had opened gives no other way.
    const second = await Stranger.attach(scope, node.port);
    assert.ok(second.writes(16_384, 4));
    assert.equal(await readWord(witness, at), 4n);
  });

  test(`what is under way when a session ends fails with the reason (${transports})`, {
    skip: missing,
  }, async (scope) => {
    const node = await nodeOf(transports);
    const witness = await connect(scope, node);
    // The node has answers that it cannot send: UCX would free what it has never allocated. Over
    // sockets UCX 1.13.1 ends the process now and then when long ones wait (docs/rdma.md).
    const [count, bytes] = transports === 'tcp' ? [1, 64] : [40, 2 ** 19];
    const answer = new Scratch(bytes);
    for (let round = 0; round < 10; round++) {
      const fabric = await connect(scope, node);
      const read = () => execute(fabric, new Batch().read(addressOf(1, 0), bytes, answer, 0));
      const lane = async () => {
        for (;;) await read();
      };
      const lanes = Promise.allSettled(Array.from({ length: count }, lane));
      const session = new Uint8Array(SESSION_BYTES);
      writeSession(session, fabric.session, false);
      await witness.call(0, REVOKE, session);
      for (const one of await lanes) {
        assert.ok(hasCode((one as PromiseRejectedResult).reason, 'SW_REVOKED'));
      }
    }
    await readWord(witness, addressOf(1, 0));
  });

  test(`a key of another node leads to that node by no other endpoint (${transports})`, {
    skip: missing,
  }, async (scope) => {
    const nodes = [await nodeOf(transports), await nodeOf(transports, 1)];
    const [here, there] = [await connect(scope, nodes[0]), await connect(scope, nodes[1])];
    const one = await Stranger.attach(scope, nodes[0].port);
    const other = await Stranger.attach(scope, nodes[1].port);
    one.takesKeyOf(other);
    // A processor does not ask for the key: what is written is written where the endpoint leads.
    const isWritten = one.writes(20_480, 7);
    assert.equal(await readWord(there, addressOf(0, 20_480)), 0n);
    assert.equal(await readWord(here, addressOf(0, 20_480)), isWritten ? 7n : 0n);
  });

  test(`a queue pair that ends leaves the others of its client (${transports})`, {
    skip: missing,
  }, async (scope) => {
    const nodes = [await nodeOf(transports), await nodeOf(transports, 1)];
    let client: UcxClient | undefined;
    const clientFor = (lent: LentMemory) => {
      client ??= new UcxClient(loadUcx(), lent.transports);
      return client;
    };
    let answered: (error: unknown) => void = () => {};
    const session = Math.floor(Math.random() * 2 ** 40) + 1;
    const place = { node: 0, nodes: 1, session, turned() {}, lost() {} };
    const connecting = nodes.map(({ port }) => {
      const told = { ...place, answered: (_: unknown, error: unknown) => answered(error) };
      return UcxPair.connect({ host: HOST, port }, told, {}, clientFor);
    });
    const [first, second] = await Promise.all(connecting);
    scope.after(() => second.close());
    first.close();
    assert.equal(client?.isClosed, false);
    const scratch = scratchOf([2n], 64);
    const flight = new Flight().begin(new Batch().faa(addressOf(0, 24_576), scratch, 0), {
      completed() {},
    });
    flight.end = 1;
    const answer = new Promise((resolve) => {
      answered = resolve;
    });
    second.post(flight.part(0));
    second.flush();
    assert.equal(await answer, undefined);
    assert.equal(scratch.i64[1], 0n);
    second.close();
    assert.equal(client?.isClosed, true);
  });
}

test('a client of the wrong secret is lent nothing', { skip: missing }, async (scope) => {
  const node = await startUcxNode('posix', { size: REGION_BYTES, secret: 'right' });
  scope.after(() => node.stop());
  const endpoints = [{ host: HOST, port: node.port }];
  for (const secret of [Buffer.from('wrong'), undefined]) {
    await rejectsCode('SW_UNAUTHENTICATED', () => connectUcx(endpoints, secret && { secret }));
  }
  const fabric = await connectUcx(endpoints, { secret: Buffer.from('right') });
  assert.equal(fabric.report?.transports, 'posix');
  fabric.close();
});

test('verbs by the connection of a node over UCX are refused', { skip: missing }, async (scope) => {
  const { port } = await nodeOf('posix');
  const fabric = await TcpFabric.connect([{ host: HOST, port }]);
  scope.after(() => fabric.close());
  const scratch = new Scratch(64);
  const read = new Batch().read(addressOf(0, 0), 8, scratch, 0);
  await rejectsCode('SW_UNSUPPORTED', () => execute(fabric, read));
});

test('a node that stops ends its clients, which say so', { skip: missing }, async (scope) => {
  const node = await startUcxNode('posix', { size: REGION_BYTES });
  const fabric = await connect(scope, node);
  const scratch = new Scratch(64);
  const read = () => execute(fabric, new Batch().read(addressOf(0, 0), 8, scratch, 0));
  await read();
  const stopping = node.stop();
  await rejectsCode('SW_NODE_UNREACHABLE', async () => {
    for (;;) await read();
  });
  await stopping;
  assert.equal((fabric.failure as StepwellError).code, 'SW_NODE_UNREACHABLE');
});

test('a node that lives, and executes no verbs, is given up', { skip: missing }, async (scope) => {
  const transports = transportsOf('posix', undefined);
  const context = new UcxContext(loadUcx(), transports);
  // Nobody progresses its worker.
  const session = new ServedSession(context);
  const regions = [new Uint8Array(new ArrayBuffer(REGION_BYTES))];
  const memory = new NodeMemory(MemorySource.allocate(1, REGION_BYTES), 1, REGION_BYTES);
  const dataPath: DataPath = {
    attach: async () => session.lend(context, { regions, isMapped: false }, transports),
    async end() {},
    pages: () => 'none yet',
    async close() {
      session.close();
      context.close();
    },
  };
  const server = await NodeServer.listen({ host: HOST, port: 0, memory, dataPath });
  scope.after(() => server.close());
  const connecting = connectUcx([{ host: HOST, port: server.port }], { timeoutMs: 400 });
  const expected = { code: 'SW_NODE_UNREACHABLE', message: /lives, but executes no verbs/ };
  await assert.rejects(connecting, expected);
});

/** A client that keeps its endpoint, its key and the address whatever its connection says. */
class Stranger {
  readonly session: number;
  readonly #client: UcxClient;
  readonly #lent: LentMemory;
  readonly #word: Pinned;
  #endpoint: ReturnType<UcxClient['connect']>;
  #key: number;

  private constructor(session: number, lent: LentMemory) {
    this.session = session;
    const ucx = loadUcx();
    this.#client = new UcxClient(ucx, lent.transports);
    this.#lent = lent;
    this.#word = new Pinned(ucx, 8);
    this.#endpoint = this.#client.connect(lent.workerAddress);
    this.#key = this.#endpoint.unpackKey(lent.regions[0].key);
  }

  static async attach(scope: Scope, port: number): Promise<Stranger> {
    const session = Math.floor(Math.random() * 2 ** 40) + 1;
    const place = { node: 0, nodes: 1, session, answered() {}, turned() {}, lost() {} };
    const control = await QueuePair.connect({ host: HOST, port }, place, {});
    const answer = new Promise<Uint8Array>((resolve, reject) => {
      const returned = (error: unknown, reply?: Uint8Array) =>
        reply === undefined ? reject(error) : resolve(reply);
      control.call(ATTACH, new Uint8Array(0), returned);
    });
    control.flush();
    const { regions, regionBytes } = control.welcome;
    const stranger = new Stranger(session, readLentMemory(await answer, regions, regionBytes));
    scope.after(() => {
      control.close();
      stranger.#client.close();
    });
    return stranger;
  }

  /** Another endpoint to the address that was told; false where nothing has it. */
  reconnects(): boolean {
    try {
      this.#endpoint = this.#client.connect(this.#lent.workerAddress);
      this.#key = this.#endpoint.unpackKey(this.#lent.regions[0].key);
      return true;
    } catch (error) {
      if (hasCode(error, 'SW_UNSUPPORTED')) return false;
      throw error;
    }
  }

  /** From now on it names its own node's memory by the key of another one. */
  takesKeyOf(other: Stranger): void {
    this.#key = this.#endpoint.unpackKey(other.#lent.regions[0].key);
  }

  /** Writes a word; whether the node has said that it did. */
  writes(offset: number, value: number): boolean {
    const { ucx, worker } = this.#client;
    const { handle, plainRequest } = this.#endpoint;
    this.#word.word(0, value);
    const to = this.#lent.regions[0].address + offset;
    if (isFailure(ucx.put(handle, this.#word.address, 8, to, this.#key))) return false;
    const flush = ucx.epFlush(handle, plainRequest);
    if (flush <= 0) return flush === 0;
    let status = 1;
    for (let turn = 0; turn < 300_000 && status === 1; turn++) {
      worker.progress();
      status = ucx.requestStatus(flush);
    }
    ucx.requestFree(flush);
    return status === 0;
  }
}
