import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { rejectsCode } from '../../store/tests/support/codes.ts';
import { type Change, compare, watch } from '../watch.ts';
import { inMemory, onStores } from './support/stores.ts';

const OFTEN = { everyMs: 1 };

onStores('a key is watched', async ({ s, attach }) => {
  const other = await attach();
  await s.set('k', 'old');
  const changes = watch(s, { key: 'k' }, { ...OFTEN, initial: true });
  const next = async () => (await changes.next()).value as Change<unknown>;
  const first = await next();
  assert.deepEqual(first, {
    type: 'set',
    key: 'k',
    value: 'old',
    version: first.type === 'set' && first.version,
  });
  const second = next();
  await other.set('k', 'new');
  assert.deepEqual(
    { ...(await second), version: 0 },
    { type: 'set', key: 'k', value: 'new', version: 0 },
  );
  const third = next();
  await other.delete('k');
  assert.deepEqual(await third, { type: 'delete', key: 'k' });
  await changes.return(undefined as never);
});

onStores('a prefix is watched, and nothing beside it', async ({ s, attach }) => {
  const other = await attach();
  await s.setMany([
    ['a:1', 'x'],
    ['b', 'x'],
  ]);
  const changes = watch(s, { prefix: 'a:' }, { ...OFTEN, initial: true });
  const met = (await changes.next()).value as Change<unknown>;
  assert.equal(met.key, 'a:1');
  const first = changes.next();
  await other.setMany([
    ['b', 'y'],
    ['a', 'y'],
    ['a:2', 'y'],
  ]);
  assert.equal((await first).value.key, 'a:2');
  const second = changes.next();
  await other.delete('a:1');
  assert.deepEqual((await second).value, { type: 'delete', key: 'a:1' });
  await changes.return(undefined as never);
});

test('what a watch misses: all but the last change between two looks', async (t) => {
  const { s } = inMemory(t, 'race');
  const look = async () => (await s.scanPage(0, 10_000)).entries;
  let { seen } = compare(new Map(), await look());
  const changes = async () => {
    const found = compare(seen, await look());
    seen = found.seen;
    return found.changes.map((change) => `${change.type} ${change.key}`).sort();
  };
  await s.setMany([
    ['once', '1'],
    ['twice', '1'],
    ['twice', '2'],
    ['gone', '1'],
  ]);
  await s.delete('gone');
  assert.deepEqual(await changes(), ['set once', 'set twice']);
  assert.deepEqual(await changes(), []);
  // The same value again is a change; absent, and there again, one of its version.
  await s.set('once', '1');
  await s.delete('twice');
  await s.set('twice', '2');
  assert.deepEqual(await changes(), ['set once', 'set twice']);
  await s.delete('once');
  assert.deepEqual(await changes(), ['delete once']);
});

test('a watch is given up', async (t) => {
  const { s } = inMemory(t, 'race');
  const aborting = new AbortController();
  const waiting = watch(s, { key: 'k' }, { signal: aborting.signal }).next();
  aborting.abort('enough');
  await assert.rejects(waiting, { code: 'SW_ABORTED', cause: 'enough' });
  for (const wrong of [{}, null, undefined, 5, 'k', []] as never[]) {
    await rejectsCode('SW_INVALID_ARGUMENT', () => watch(s, wrong).next());
  }
  const both = { key: 'k', prefix: 'k' } as never;
  await rejectsCode('SW_INVALID_ARGUMENT', () => watch(s, both).next());
  const initial = 'no' as never;
  await rejectsCode('SW_INVALID_ARGUMENT', () => watch(s, { key: 'k' }, { initial }).next());
  await rejectsCode('SW_INVALID_ARGUMENT', () => watch(s, { key: 'k' }, { everyMs: 0 }).next());
  const closed = watch(s, { key: 'k' }, OFTEN).next();
  await s.close();
  await rejectsCode('SW_CLOSED', () => closed);
});

test('a store that is watched posts no verb more', async (t) => {
  const { s, attach } = inMemory(t, 'race');
  const other = await attach();
  const cost = async () => {
    const before = (await s.stats()).traffic.roundTrips;
    for (let i = 0; i < 20; i++) await s.set('k', `${i}`);
    const after = (await s.stats()).traffic.roundTrips;
    // An idle client gives back its blocks, and claims as many when it writes again.
    await turn();
    return after - before;
  };
  // At first it claims more each time.
  for (let i = 0; i < 4; i++) await cost();
  const alone = await cost();
  const changes = watch(other, { key: 'k' }, { ...OFTEN, initial: true });
  await changes.next();
  const next = changes.next();
  assert.equal(await cost(), alone);
  await next;
  await changes.return(undefined as never);
});
