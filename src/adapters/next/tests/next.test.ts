import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import { type Clients, inMemory, onStores } from '../../../helpers/tests/support/stores.ts';
import { nextCacheHandler } from '../index.ts';

/** Next.js has one of it a process, and no declarations for programs without its compiler. */
const { IncrementalCache } = createRequire(import.meta.url)(
  'next/dist/server/lib/incremental-cache',
);

const PREVIEW = { previewModeId: 'id', previewModeSigningKey: 'a', previewModeEncryptionKey: 'b' };
const MANIFEST = {
  version: 4,
  routes: {},
  dynamicRoutes: {},
  notFoundRoutes: [],
  preview: PREVIEW,
};
const ROUTE = { kind: 'APP_PAGE', sourceRoute: '/p/page' };

/** The cache of Next.js itself, as a server makes one for a request. */
function cacheOn(store: Clients['s'], options?: Parameters<typeof nextCacheHandler>[1]) {
  return new IncrementalCache({
    dev: false,
    requestHeaders: {},
    previewProps: PREVIEW,
    prerenderManifest: MANIFEST,
    CurCacheHandler: nextCacheHandler(store, options),
  });
}

const fetched = (body: string, tags: string[]) => ({
  kind: 'FETCH',
  data: { headers: {}, body, url: 'http://a/', status: 200 },
  revalidate: 3600,
  tags,
});

const page = (html: string, tags: string) => ({
  kind: 'APP_PAGE',
  html,
  rscData: Buffer.from('rsc'),
  headers: { 'x-next-cache-tags': tags },
  postponed: undefined,
  status: 200,
  segmentData: new Map([['/_tree', Buffer.from('tree')]]),
});

const asFetch = (tags: string[]) => ({ kind: 'FETCH', tags, softTags: ['_N_T_/p'] });
const asPage = { kind: 'APP_PAGE', isFallback: false, route: ROUTE };

onStores('servers share fetches and pages, and their tags', async ({ s, attach }) => {
  const [one, two] = [cacheOn(s), cacheOn(await attach())];
  assert.equal(await one.get('f', asFetch(['t'])), null);
  await one.set('f', fetched('1', ['t']), { fetchCache: true, tags: ['t'] });
  const cacheControl = { revalidate: 3600, expire: 86_400 };
  await one.set('/p', page('<p>', 'u,_N_T_/p'), { route: ROUTE, cacheControl });
  assert.equal((await two.get('f', asFetch(['t']))).value.data.body, '1');
  const found = await two.get('/p', asPage);
  assert.equal(found.value.html, '<p>');
  assert.ok(Buffer.isBuffer(found.value.rscData), 'as Next.js writes it to a response');
  assert.equal(found.value.segmentData.get('/_tree').toString(), 'tree');
  assert.deepEqual([found.cacheControl, found.isStale], [cacheControl, undefined]);
  await two.revalidateTag('t');
  assert.equal(await one.get('f', asFetch(['t'])), null);
  assert.equal((await one.get('/p', asPage)).value.html, '<p>');
  await one.revalidateTag(['u', 'v']);
  assert.equal(await two.get('/p', asPage), null);
});

test('a path is a tag of pages and of the fetches in them', async (t) => {
  const { s } = inMemory(t, 'race');
  const cache = cacheOn(s);
  await cache.set('f', fetched('1', []), { fetchCache: true });
  await cache.set('/p', page('<p>', '_N_T_/p'), { route: ROUTE });
  await cache.revalidateTag('_N_T_/p');
  assert.equal(await cache.get('f', asFetch([])), null);
  assert.equal(await cache.get('/p', asPage), null);
});

test('what is written after a tag was revalidated is served again', async (t) => {
  t.mock.timers.enable({ apis: ['Date'], now: Date.now() });
  const { s } = inMemory(t, 'race');
  const handler = new (nextCacheHandler(s))();
  const fetching = asFetch(['t']);
  await handler.set('f', fetched('1', []), { fetchCache: true });
  await handler.revalidateTag('t');
  assert.equal(await handler.get('f', fetching), null, 'in the same millisecond');
  t.mock.timers.tick(1);
  await handler.set('f', fetched('2', []), { fetchCache: true });
  assert.equal((await handler.get('f', fetching))?.value.data.body, '2');
});

test('a profile has a fetch answered stale, a page rendered first, and both end', async (t) => {
  t.mock.timers.enable({ apis: ['Date'], now: Date.now() });
  const { s } = inMemory(t, 'race');
  const handler = new (nextCacheHandler(s))();
  await handler.set('f', fetched('1', []), { fetchCache: true });
  await handler.set('/p', page('<p>', 't'), { cacheControl: { revalidate: 9, expire: 100 } });
  assert.ok(((await s.ttl('next:entry:/p')) ?? 0) <= 100_000);
  t.mock.timers.tick(1);
  await handler.revalidateTag('t', { expire: 10 });
  assert.equal((await handler.get('f', asFetch(['t'])))?.lastModified, 1);
  assert.equal((await handler.get('/p', asPage))?.lastModified, -1);
  t.mock.timers.tick(10_000);
  assert.equal(await handler.get('f', asFetch(['t'])), null);
  assert.equal(await handler.get('/p', asPage), null);
});

test('a page that was not found is an entry, and builds have prefixes', async (t) => {
  const { s } = inMemory(t, 'race');
  const cache = cacheOn(s, { prefix: 'build-1:' });
  await cache.set('/p', null, { route: ROUTE, cacheControl: { revalidate: 60 } });
  assert.equal((await cache.get('/p', asPage)).value, null);
  assert.equal(await cacheOn(s, { prefix: 'build-2:' }).get('/p', asPage), null);
  const again = new (nextCacheHandler(s))({ revalidatedTags: ['t'] });
  await again.set('f', fetched('1', []), {});
  assert.equal(await again.get('f', asFetch(['t'])), null);
  assert.ok(await again.get('f', asFetch(['u'])));
});
