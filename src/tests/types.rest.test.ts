import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compiled, ENTRIES, publishedTypes } from '../store/tests/support/published-types.ts';
import { readmeExamples } from '../store/tests/support/readme-examples.ts';

/** Below `store/` itself, and in its parts. */
const PUBLIC_PARTS = [
  'store/pools/copy-pool.ts',
  'store/pools/grow.ts',
  'store/pools/list-pools.ts',
  'store/remote/memory-nodes.ts',
];
const PUBLIC = /^(index|errors|store\/[\w-]+)\.ts$/;

test('the declarations of the package reach nothing but public types', () => {
  const paths = [...publishedTypes(['index.ts']).keys()];
  assert.deepEqual(
    paths.filter((path) => !PUBLIC.test(path) && !PUBLIC_PARTS.includes(path)),
    [],
  );
  const all = [...publishedTypes(ENTRIES).values()].join('\n');
  const others = [...all.matchAll(/from ['"]([^.'"][^'"]*)['"]/g)].map(([, name]) => name);
  assert.deepEqual([...new Set(others)].sort(), [
    'abstract-level',
    'bentocache/types',
    'express-rate-limit',
    'express-session',
    'keyv',
    'node:tls',
    'rate-limiter-flexible',
    'unstorage',
  ]);
  // TypeScript before 5.7 has no Uint8Array with a parameter.
  assert.doesNotMatch(all, /ArrayBufferLike/);
});

const HEAD = `
import { open, openSync, type AsyncStore, type Key, type OpenOptions, type Store,
  type Value, type ValueCodec } from 'stepwell';
`;

const ACCEPTED = `${HEAD}
const plain = openSync('memory:');
const parsed: unknown = JSON.parse(plain.get('k')!);
const promisedText = await (await open('tcp://a:7471')).get('k');
const later2: unknown = JSON.parse(promisedText!);
const mixed = openSync('memory:', { values: 'auto' });
mixed.set('k', new Uint8Array(1));
const removedAll: number = plain.clear({ prefix: 'user:' });
const removedLater: Promise<number> = plain.async.clear({ prefix: 'user:' });
for (const key of plain.keys({ prefix: 'user:', limit: 3 })) void key;
const lastOf: [Key, string] | undefined = plain.last({ prefix: 'user:' });
openSync('memory:', { size: '4g', maxBytes: '1GiB', nearCache: { maxBytes: '64m' } });
void [parsed, later2, removedAll, removedLater, lastOf];
const either: Store<Value, Key> = plain;
const texts = openSync('memory:', { values: 'utf8', keys: 'utf8' });
const text: string | undefined = texts.get('k');
for (const [key, value] of texts) { const both: string = key + value; void both; }
for (const key of texts.keys()) { const one: string = key; void one; }
const first: string | undefined = texts.first()?.[0];
const cut: AsyncStore<string, string> = texts.async.withSignal(AbortSignal.timeout(1));
const timely: string | undefined = await cut.get('k');
const found: string[] = texts.scanPage(0).entries.map(({ key, value }) => key + value);
const promised: Promise<string | undefined> = texts.async.get('k');
const bytes = openSync('memory:', { values: 'bytes', keys: 'bytes' });
const length: number | undefined = bytes.get('k')?.byteLength;
for (const [key, value] of bytes) { const both: number = key.length + value.length; void both; }
for await (const [key] of texts.async) { const one: string = key; void one; }
const remote = await open('tcp://a:7471', { values: 'utf8' });
const there: string | undefined = await remote.get('k');
const asserted: Store<string> = openSync<string>('memory:');
const both: Store<string, string> = openSync<string, string>('memory:', { keys: 'utf8' });
const decoded: AsyncStore<Uint8Array> = await open<Uint8Array>('shm:a', { values: 'bytes' });
const narrower: string | undefined = openSync<'on' | 'off'>('memory:').get('k');
declare const some: OpenOptions;
const unknown: Store = openSync('memory:', some);
interface Session { user: string; roles: string[] }
const sessions = openSync<Session>('memory:', { values: 'json' });
const session: Session | undefined = sessions.get('k');
sessions.set('k', { user: 'Ada', roles: [] });
const roles: string[] | undefined = sessions.getEntry('k')?.value.roles;
for (const [, value] of sessions) { const user: string = value.user; void user; }
const later: Promise<Session | undefined> = sessions.async.get('k');
const packed: AsyncStore<Session, string, Session> =
  await open<Session, string>('tcp://a:7471', { values: 'msgpack', keys: 'utf8' });
const date: ValueCodec<Date> = { encode: (value) => value.toISOString(),
  decode: (bytes) => new Date(new TextDecoder().decode(bytes)) };
const dates = openSync('memory:', { values: date });
const when: Date | undefined = dates.get('k');
dates.set('k', new Date());
const anything: unknown = openSync('memory:', { values: 'v8' }).get('k');
const users = sessions.namespace('user:', { ttlMs: 1000 });
const one: Session | undefined = users.get('k');
const spoken: string | undefined = plain.namespace('a:', { values: 'utf8' }).get('k');
const inner: Session | undefined = plain.namespace<Session>('a:', { values: 'v8' }).get('k');
const dated: Date | undefined = plain.namespace('a:', { values: date }).get('k');
const promisedUsers: Promise<Session | undefined> = sessions.async.namespace('user:').get('k');
void [session, roles, later, packed, when, anything, one, spoken, inner, dated, promisedUsers];
const removed: boolean = plain.compareAndDelete('k', 1);
void [either, text, first, found, promised, length, there, asserted, both, decoded, narrower];
void [unknown, removed];
`;

const REFUSED = `${HEAD}
declare const some: OpenOptions;
// @ts-expect-error: bytes are no strings
openSync<string>('memory:', { values: 'bytes' });
// @ts-expect-error
openSync<Uint8Array>('memory:', { values: 'utf8' });
// @ts-expect-error: it may be 'bytes'
openSync<string>('memory:', some);
// @ts-expect-error
openSync<string, Uint8Array>('memory:', { keys: 'utf8' });
// @ts-expect-error
await open<string>('tcp://a:7471', { values: 'bytes' });
// @ts-expect-error
const text: string | undefined = openSync('memory:', { values: 'bytes' }).get('k');
// @ts-expect-error: without the option values, values are texts
openSync('memory:').set('k', new Uint8Array(1));
// @ts-expect-error: an object needs values: 'json'
openSync('memory:').set('k', {});
// @ts-expect-error: with 'auto' only the caller can know
const auto: string | undefined = openSync('memory:', { values: 'auto' }).get('k');
// @ts-expect-error
const { value } = openSync('memory:').getEntry('k');
// @ts-expect-error
openSync('memory:', { values: 'latin1' });
// @ts-expect-error
openSync('memory:', { store: 's', vales: 'utf8' });
interface Session { user: string }
// @ts-expect-error: text or bytes alone cannot be sessions
openSync<Session>('memory:');
// @ts-expect-error
openSync<Session>('memory:', { values: 'utf8' });
// @ts-expect-error: no session
openSync<Session>('memory:', { values: 'json' }).set('k', 'text');
// @ts-expect-error
openSync<Session>('memory:', { values: 'json' }).setMany([['k', { name: 'Ada' }]]);
// @ts-expect-error: a codec of something else
openSync<Session>('memory:', { values: { encode: (at: Date) => '', decode: () => new Date() } });
// @ts-expect-error
openSync('memory:', { values: { encode: () => '' } });
// @ts-expect-error
const unsure: Session = openSync<Session>('memory:', { values: 'v8' }).get('k');
void [text, auto, value, unsure];
`;

/** What each library takes, from a store in memory and from one over a network. */
const ADAPTERS = `
import { open, openSync } from 'stepwell';
import { StepwellDriver, stepwellDriver as bentoDriver } from 'stepwell/bentocache';
import { StepwellRateLimit } from 'stepwell/express-rate-limit';
import { StepwellSessionStore } from 'stepwell/express-session';
import { StepwellSessionStore as FastifySessions } from 'stepwell/fastify-session';
import { StepwellKeyv } from 'stepwell/keyv';
import { nextCacheHandler } from 'stepwell/next';
import { RateLimiterStepwell } from 'stepwell/rate-limiter-flexible';
import { stepwellDriver } from 'stepwell/unstorage';
import { bentostore } from 'bentocache';
import type { L2CacheDriver } from 'bentocache/types';
import { rateLimit, type Store as RateLimitStore } from 'express-rate-limit';
import session from 'express-session';
import type { FastifySessionOptions } from '@fastify/session';
import type { RateLimiterAbstract } from 'rate-limiter-flexible';
import { Keyv, type KeyvStoreAdapter } from 'keyv';
import type { CacheHandler } from 'next/dist/server/lib/incremental-cache/index.js';
import { createStorage, type Driver } from 'unstorage';
interface User { name: string }
const typed = openSync<User>('memory:', { values: 'json' });
for (const store of [openSync('memory:'), await open('tcp://a:7471'), typed]) {
  const adapter: KeyvStoreAdapter = new StepwellKeyv(store);
  const limits: RateLimitStore = new StepwellRateLimit(store, { prefix: 'api:' });
  const sessions: session.Store = new StepwellSessionStore(store, { values: 'v8' });
  const fastify: FastifySessionOptions['store'] = new FastifySessions(store, { values: 'v8' });
  const limiter: RateLimiterAbstract = new RateLimiterStepwell({
    storeClient: store,
    points: 1,
    duration: 1,
  });
  const driver: Driver = stepwellDriver({ store });
  const layer: L2CacheDriver = new StepwellDriver({ store });
  const handler: typeof CacheHandler = nextCacheHandler(store);
  new Keyv({ store: adapter });
  rateLimit({ store: limits });
  session({ store: sessions, secret: 's' });
  createStorage({ driver });
  bentostore().useL2Layer(bentoDriver({ store }));
  void [layer, handler, fastify, limiter];
}
// @ts-expect-error: an adapter takes a store, not its URL
new StepwellKeyv('shm:my-app');
// @ts-expect-error
new StepwellRateLimit(typed, { prefx: 'api:' });
// @ts-expect-error: no store
new RateLimiterStepwell({ points: 1, duration: 1 });
`;

const EXAMPLES = readmeExamples();

// One program for all: most of the time goes into Node's own types.
const complaints = compiled({
  accepted: ACCEPTED,
  refused: REFUSED,
  adapters: ADAPTERS,
  ...Object.fromEntries(EXAMPLES.map(({ code }, i) => [`example-${i}`, code])),
});

test('the options keys and values narrow what a store returns, and refuse what contradicts', () => {
  assert.deepEqual(
    complaints.filter((text) => !text.startsWith('example')),
    [],
  );
});

test('the examples of the READMEs compile under strict', () => {
  assert.ok(EXAMPLES.length >= 4);
  const said = complaints.map((text) => {
    const [, number] = /^example-(\d+)/.exec(text) ?? [];
    return number && `${EXAMPLES[Number(number)].page}: ${text}`;
  });
  assert.deepEqual(said.filter(Boolean), []);
});
