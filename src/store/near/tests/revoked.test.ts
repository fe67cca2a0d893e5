import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '../../../errors.ts';
import { SESSION_BYTES, writeSession } from '../../../fabrics/tcp/method-arguments.ts';
import { REVOKE } from '../../../fabrics/tcp/node-methods.ts';
import { connectTo } from '../../../fabrics/tcp/tests/support/rig.ts';
import type { IndexName } from '../../api.ts';
import { open } from '../../open.ts';
import type { RemoteStore } from '../../remote/remote-store.ts';
import { startNodes } from '../../tests/support/remote.ts';

const INDEXES: readonly IndexName[] = ['race', 'shard', 'chime', 'hopscotch', 'hstore'];

for (const index of INDEXES) {
  test(`${index}: after a revocation the next session begins with an empty near cache`, async (t) => {
    const { servers, url } = await startNodes(t, 1);
    const options = { index, values: 'json', maxClients: 8 } as const;
    const other = await open(url, options);
    t.after(() => other.close());
    const keys = ['stays', 'changes'];
    for (const key of keys) await other.set(key, { id: 1 });
    // With another limit it has a client of its own.
    const near = await open<object>(url, { ...options, lockTimeoutMs: 5000, nearCache: 100 });
    t.after(() => near.close());
    for (let read = 0; read < 2; read++) for (const key of keys) await near.get(key);
    const kept = await near.get('stays');
    assert.equal((await near.stats()).near?.hits, 1);
    const clientNow = async () => (await (near as RemoteStore<object>).live()).session.client;
    const client = await clientNow();
    const judge = await connectTo(t, servers);
    const bytes = new Uint8Array(SESSION_BYTES);
    writeSession(bytes, client.fabric.session, false);
    await judge.call(0, REVOKE, bytes);
    await other.set('changes', { id: 2 });
    // It is told at once; a call in flight would fail with this error.
    assert.ok(hasCode(client.fabric.failure, 'SW_REVOKED'));
    const renewed = await near.get('stays');
    assert.deepEqual(renewed, { id: 1 });
    assert.notEqual(renewed, kept, 'the same object as in the session before');
    assert.deepEqual(await near.get('changes'), { id: 2 });
    const { entries, hits } = (await near.stats()).near ?? {};
    assert.deepEqual([entries, hits], [0, 0]);
    assert.notEqual(await clientNow(), client);
  });
}
