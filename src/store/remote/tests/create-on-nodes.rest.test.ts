/** Creators of a pool on several nodes that die, or meet; and what is left of such a pool. */
import assert from 'node:assert/strict';
import { describe, it, type TestContext, test } from 'node:test';
import type { NodeServer } from '../../../fabrics/tcp/node/node-server.ts';
import { ERASE } from '../../../fabrics/tcp/node-methods.ts';
import { connectTo } from '../../../fabrics/tcp/tests/support/rig.ts';
import { create, destroy, inspect, open } from '../../open.ts';
import { rejectsCode } from '../../tests/support/codes.ts';
import { startNodes } from '../../tests/support/remote.ts';
import { destroyOnNodes } from '../administer.ts';
import { newParameters, verifyNodes } from '../attach.ts';
import { createOnNodes } from '../create-on-nodes.ts';
import { type ConnectedNodes, headKind, readHead, readImages } from '../node-heads.ts';
import { Turns } from './support/turns.ts';

const BYTES = 2 * 2 ** 20;
const OPTIONS = { maxClients: 4, client: 'test' };
const URL = 'tcp://nodes';
const LOST = 'SW_POOL_NOT_FOUND';

/** Creates the pool, or attaches to that of another creator; its identity. */
async function creating(fabric: ConnectedNodes): Promise<number> {
  const head = await createOnNodes(fabric, newParameters(fabric, OPTIONS, URL), URL);
  return (await verifyNodes(fabric, head, URL)).poolId;
}

async function identity(t: TestContext, servers: readonly NodeServer[]): Promise<number> {
  const fabric = await connectTo(t, servers);
  return (await verifyNodes(fabric, await readHead(fabric), URL)).poolId;
}

async function kinds(t: TestContext, servers: readonly NodeServer[]): Promise<string> {
  const images = await readImages(await connectTo(t, servers));
  return images.map(headKind).join();
}

const start = (t: TestContext, count: number) => startNodes(t, count, { bytes: BYTES });

const urlOf = (servers: readonly NodeServer[]) =>
  `tcp://${servers.map(({ port }) => `127.0.0.1:${port}`).join(',')}`;

async function works(url: string): Promise<void> {
  const store = await open(url, OPTIONS);
  await store.set('key', 'value');
  assert.equal(await store.get('key'), 'value');
  await store.close();
}

describe('creators of one pool', () => {
  it('create one, in whatever order their steps are done', async (t) => {
    for (let seed = 0; seed < 40; seed++) {
      const { servers } = await start(t, 3);
      const fabrics = [1, 2, 3].map(() => connectTo(t, servers));
      const turns = new Turns(seed);
      const gates = (await Promise.all(fabrics)).map((fabric) => turns.gate(fabric));
      const creators = gates.map(creating);
      await turns.run(creators);
      const found = await Promise.all(creators);
      const id = await identity(t, servers);
      assert.deepEqual(found, [id, id, id], `seed ${seed}`);
    }
  });

  it('finish what another had begun when it died, after whichever of its steps', async (t) => {
    const seen = new Set<string>();
    for (let steps = 0; !seen.has('superblock,mark,mark'); steps++) {
      for (let seed = 0; seed < 3; seed++) {
        const { servers, url } = await start(t, 3);
        const turns = new Turns(seed);
        const dying = creating(turns.gate(await connectTo(t, servers), steps));
        await turns.run([dying]);
        const left = await kinds(t, servers);
        seen.add(left);
        const isThere = left.startsWith('superblock');
        if (!isThere) await rejectsCode(LOST, () => open(url, { ...OPTIONS, create: false }));
        // Clients of the CLI and of the library, by turns; it is not theirs that is created.
        if (seed === 0 && left.startsWith('draft')) {
          await rejectsCode('SW_POOL_EXISTS', () => create(url, OPTIONS));
        } else if (seed === 1 && !isThere && !left.startsWith('blank')) {
          await destroy(url);
          assert.equal(await kinds(t, servers), 'blank,blank,blank');
        }
        await works(url);
      }
    }
    for (const others of ['blank,blank', 'mark,blank', 'mark,mark']) {
      assert.ok(seen.has(`draft,${others}`), [...seen].join(' '));
    }
  });

  it('of URLs with different nodes leave one pool, which opens by one of them', async (t) => {
    for (let seed = 0; seed < 30; seed++) {
      const { servers } = await start(t, 3);
      const [a, b, c] = servers;
      const turns = new Turns(seed);
      const gates = [await connectTo(t, [a, b]), await connectTo(t, [a, c])];
      const creators = gates.map((fabric) => creating(turns.gate(fabric)));
      await turns.run(creators);
      const found = await Promise.allSettled(creators);
      const there = await Promise.allSettled([identity(t, [a, b]), identity(t, [a, c])]);
      const codes = (all: PromiseSettledResult<number>[]) =>
        all.map((one) => (one.status === 'fulfilled' ? 'there' : one.reason.code));
      assert.deepEqual(codes(found), codes(there), `seed ${seed}`);
      assert.equal(codes(found).filter((code) => code === 'there').length, 1);
      assert.ok(codes(found).includes('SW_POOL_FOREIGN') || codes(found).includes(LOST));
    }
  });

  it('of URLs in different orders leave what destroy clears', async (t) => {
    let stuck = 0;
    for (let seed = 0; seed < 20; seed++) {
      const { servers, url } = await start(t, 2);
      const turns = new Turns(seed);
      const orders = [servers, servers.toReversed()];
      const gates = await Promise.all(orders.map((order) => connectTo(t, order)));
      const creators = gates.map((fabric) => creating(turns.gate(fabric)));
      await turns.run(creators);
      const found = await Promise.allSettled(creators);
      assert.ok(found.filter(({ status }) => status === 'fulfilled').length <= 1);
      if ((await kinds(t, servers)) !== 'draft,draft') continue;
      stuck++;
      await destroy(url);
      await works(url);
    }
    assert.ok(stuck > 0);
  });
});

describe('destroy', () => {
  it('ends what it had begun when it died, and the pool does not open meanwhile', async (t) => {
    for (let erased = 0; erased <= 3; erased++) {
      const { servers, url } = await start(t, 3);
      await works(url);
      const fabric = await connectTo(t, servers);
      const { call } = fabric;
      let calls = 0;
      fabric.call = (node, method, request) => {
        if (method === ERASE && calls++ === erased) throw new Error('died');
        return call.call(fabric, node, method, request);
      };
      const dying = destroyOnNodes(fabric, URL, false);
      if (erased < 3) await assert.rejects(dying, { message: 'died' });
      else await dying;
      fabric.close();
      if (erased > 0) {
        await rejectsCode(LOST, () => open(url, { ...OPTIONS, create: false }));
        if (erased < 3) await rejectsCode(LOST, () => open(url, OPTIONS));
      }
      if (erased < 3) await destroy(url);
      assert.equal(await kinds(t, servers), 'blank,blank,blank');
      await works(url);
    }
  });

  it('clears what is left of a pool whose first node is blank, when it is forced', async (t) => {
    const { servers, url } = await start(t, 3);
    await works(url);
    const [first] = servers;
    await first.memory.erase(async () => {});
    await rejectsCode(LOST, () => destroy(url));
    await rejectsCode(LOST, () => create(url, OPTIONS));
    assert.equal(await kinds(t, servers), 'blank,mark,mark', 'nothing was begun');
    await destroy(url, { force: true });
    await works(url);
  });

  it('erases no part of another pool, by force neither', async (t) => {
    const { servers } = await start(t, 6);
    const [a, b, c, d, e, blank] = servers;
    const pools = [[a, b], [c, d], [e]];
    for (const nodes of pools) await works(urlOf(nodes));
    const wrong = [
      [a, d],
      [a, c],
      [a, e],
      [blank, c],
      [blank, e],
    ];
    for (const nodes of wrong) {
      await rejectsCode('SW_POOL_FOREIGN', () => destroy(urlOf(nodes), { force: true }));
    }
    await rejectsCode(LOST, () => destroy(urlOf([blank, b])), 'it may be in use');
    await rejectsCode('SW_INVALID_URL', () => destroy(urlOf([a])));
    await rejectsCode('SW_INVALID_URL', () => destroy(urlOf([b, a]), { force: true }));
    for (const nodes of pools) await works(urlOf(nodes));
  });
});

test('a first node that was replaced by one of another pool is told from it', async (t) => {
  const { servers } = await start(t, 4);
  const [a, b, c, d] = servers;
  await works(urlOf([a, b]));
  await works(urlOf([c, d]));
  await rejectsCode('SW_POOL_FOREIGN', () => open(urlOf([a, d]), OPTIONS));
  await rejectsCode('SW_POOL_FOREIGN', () => open(urlOf([a, d]), { ...OPTIONS, create: false }));
  await rejectsCode('SW_INVALID_URL', () => open(urlOf([a]), OPTIONS));
  await rejectsCode('SW_INVALID_URL', () => open(urlOf([a, b, c]), OPTIONS));
});

test('a store is created once, in a pool that is there or a new one', async (t) => {
  const { url } = await startNodes(t, 2, { bytes: 8 * BYTES });
  const index = { kind: 'shard', partitions: 5000 } as const;
  await rejectsCode('SW_INVALID_ARGUMENT', () => create(`${url}/a`, { index }));
  await rejectsCode('SW_POOL_NOT_FOUND', () => open(url, { create: false }));
  assert.equal(await create(`${url}/a`), true);
  const both = await Promise.allSettled([create(`${url}/b`), create(url, { store: 'b' })]);
  assert.deepEqual(both.map(({ status }) => status).sort(), ['fulfilled', 'rejected']);
  await rejectsCode('SW_STORE_EXISTS', () => create(`${url}/a`));
  await rejectsCode('SW_POOL_EXISTS', () => create(url));
  const { stores } = await inspect(url);
  assert.deepEqual(
    stores.map(({ name }) => name),
    ['a', 'b'],
  );
});
