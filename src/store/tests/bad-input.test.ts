import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { OpenOptions } from '../api.ts';
import {
  check,
  checkSync,
  create,
  createSync,
  destroy,
  destroySync,
  inspect,
  inspectSync,
  open,
  openAloneSync,
  openSync,
} from '../open.ts';
import { copyPool } from '../pools/copy-pool.ts';
import { secretFrom } from '../remote/address.ts';
import { memoryNodes } from '../remote/memory-nodes.ts';
import { rejectsCode, throwsCode } from './support/codes.ts';
import {
  attachTo,
  freshStore,
  freshUrl,
  keepOpen,
  pathOf,
  SMALL,
  temporaryDirectory,
} from './support/pools.ts';
import { startNodes } from './support/remote.ts';
import { witness } from './support/witness.ts';

const MIB = 2 ** 20;

test('URLs that cannot be understood', async () => {
  const texts = ['', 'pool', 'shm', 'shm:', 'file:', 'memory', 'memory:x', 'MEMORY:', 'http://x/y'];
  texts.push(
    'shm:a/b',
    'shm:../x',
    'shm:a b',
    'shm:ä',
    `shm:${'x'.repeat(129)}`,
    'shm:a\0',
    ' shm:a',
  );
  texts.push('udp://host:1', 'file:a\0b', 'file:/tmp/\0', '\0', '/tmp/pool', 'shm://a');
  const others = [undefined, null, 5, {}, [], () => 0, { memory: [] }, { memory: [{}] }];
  for (const url of [...texts, ...others, { memory: 'x' }] as string[]) {
    throwsCode('SW_INVALID_URL', () => openSync(url), `open ${String(url)}`);
    throwsCode('SW_INVALID_URL', () => inspectSync(url), `inspect ${String(url)}`);
    throwsCode('SW_INVALID_URL', () => checkSync(url), `check ${String(url)}`);
    throwsCode('SW_INVALID_URL', () => createSync(url), `create ${String(url)}`);
    throwsCode('SW_INVALID_URL', () => destroySync(url), `destroy ${String(url)}`);
    await rejectsCode('SW_INVALID_URL', () => open(url), `open ${String(url)}`);
  }
  for (const url of ['tcp://', 'tcp:', 'tcp://host:x', 'tcp://host:65536', 'tls://host:-1']) {
    await rejectsCode('SW_INVALID_URL', () => open(url), url);
  }
  for (const call of [openSync, inspectSync, checkSync, createSync, destroySync]) {
    throwsCode('SW_UNSUPPORTED', () => call('tcp://host:1'), `${call.name} over a network`);
  }
  throwsCode('SW_INVALID_URL', () => createSync('memory:'));
  throwsCode('SW_INVALID_URL', () => destroySync('memory:'));
  throwsCode('SW_INVALID_URL', () => openSync(`file:/tmp/${'x'.repeat(300)}`, SMALL));
});

test('options of pools over a network that cannot be', async () => {
  const absurd: Record<string, unknown>[] = [
    ...[0, -1, Number.NaN, '5'].map((timeoutMs) => ({ timeoutMs })),
    ...['', 5, null, {}, 'x'.repeat(4097)].map((secret) => ({ secret })),
    ...[5, 'ca', null].map((tls) => ({ tls })),
    { client: 5 },
    { keys: 'json' },
  ];
  for (const options of absurd) {
    // Port 9 is nobody's: what is wrong is found before anybody is asked.
    const opening = () => open('tcp://127.0.0.1:9/x', options as OpenOptions);
    await rejectsCode('SW_INVALID_ARGUMENT', opening, JSON.stringify(options));
  }
});

test('options that are no object', async (t) => {
  const url = freshUrl(t, 'file');
  const remote = 'tcp://127.0.0.1:9/x';
  for (const options of [null, 5, 'users', true, [], new Map()] as OpenOptions[]) {
    const text = String(options);
    const calls = [openSync, createSync, destroySync, checkSync];
    for (const call of calls) {
      throwsCode('SW_INVALID_ARGUMENT', () => call(url, options as object), `${call.name} ${text}`);
    }
    for (const call of [open, create, destroy, inspect, check, memoryNodes]) {
      const what = `${call.name} ${text}`;
      await rejectsCode('SW_INVALID_ARGUMENT', () => call(remote, options as object), what);
    }
  }
  assert.equal(existsSync(pathOf(url)), false);
  for (const nodes of ['1', 5, [1], [null]] as unknown as string[][]) {
    await rejectsCode('SW_INVALID_ARGUMENT', () => memoryNodes(remote, { add: nodes }));
    await rejectsCode('SW_INVALID_ARGUMENT', () => memoryNodes(remote, { remove: nodes }));
  }
});

test('one memory node under two names', async (t) => {
  const { servers } = await startNodes(t, 1, { bytes: 16 * MIB });
  const [{ port }] = servers;
  for (const twice of [`127.0.0.1:${port},127.0.0.1:${port}`, 'a:1,A:1']) {
    await rejectsCode('SW_INVALID_URL', () => open(`tcp://${twice}`), twice);
  }
  const opening = () => open(`tcp://127.0.0.1:${port},localhost:${port}`);
  await rejectsCode('SW_INVALID_URL', opening, 'two addresses');
  await assert.rejects(opening, /names this node twice/);
});

test('a secret that is named is not overruled by the environment', (t) => {
  const [named, other] = ['named', 'other'].map((text) => {
    const file = join(temporaryDirectory(t), text);
    writeFileSync(file, `${text}\n`);
    return file;
  });
  const environment = { STEPWELL_SECRET: 'environment', STEPWELL_SECRET_FILE: other };
  const secret = (...given: [string | undefined, string?]) =>
    String(secretFrom(given[0], environment, given[1]));
  assert.equal(secret('given', named), 'given');
  assert.equal(secret(undefined, named), 'named');
  assert.equal(secret(undefined), 'environment');
  assert.equal(String(secretFrom(undefined, { STEPWELL_SECRET_FILE: other })), 'other');
  assert.equal(secretFrom(undefined, {}), undefined);
  throwsCode('SW_INVALID_ARGUMENT', () => secret(undefined, `${named}, which is not there`));
});

test('handles that are no pool', () => {
  const buffers = (...bytes: number[]) => ({ memory: bytes.map((n) => new SharedArrayBuffer(n)) });
  throwsCode('SW_POOL_FOREIGN', () => openSync(buffers(8)));
  throwsCode('SW_POOL_FOREIGN', () => openSync(buffers(MIB, MIB)));
  throwsCode('SW_POOL_FOREIGN', () => inspectSync(buffers(4096)));
});

test('a pool that is not there', (t) => {
  const directory = temporaryDirectory(t);
  const missing = [`file:${directory}/missing`, freshUrl(t, 'shm')];
  for (const url of missing) {
    throwsCode('SW_POOL_NOT_FOUND', () => openSync(url, { create: false }));
    throwsCode('SW_POOL_NOT_FOUND', () => inspectSync(url));
    throwsCode('SW_POOL_NOT_FOUND', () => checkSync(url));
    throwsCode('SW_POOL_NOT_FOUND', () => destroySync(url));
    throwsCode('SW_POOL_NOT_FOUND', () => destroySync(url, { force: true }));
  }
  throwsCode('SW_DIRECTORY_NOT_FOUND', () => openSync(`file:${directory}/no/such/pool`, SMALL));
  throwsCode('SW_DIRECTORY_NOT_FOUND', () => createSync(`file:${directory}/no/such/pool`, SMALL));
  throwsCode('SW_POOL_NOT_FOUND', () => openSync('memory:', { create: false }));
  assert.deepEqual(readdirSync(directory), []);
});

test('creating, opening, destroying', (t) => {
  for (const kind of ['shm', 'file'] as const) {
    const url = freshUrl(t, kind);
    createSync(url, SMALL);
    throwsCode('SW_POOL_EXISTS', () => createSync(url, SMALL));
    throwsCode('SW_STORE_NOT_FOUND', () => openSync(url, { create: false }));
    const store = openSync(url);
    store.set('k', 'v');
    throwsCode('SW_POOL_BUSY', () => destroySync(url));
    assert.equal(openSync(url, { create: false }).get('k'), 'v');
    throwsCode('SW_STORE_NOT_FOUND', () => openSync(url, { create: false, store: 'other' }));
    store.close();
    throwsCode('SW_POOL_BUSY', () => destroySync(url), 'the other client is still there');
    destroySync(url, { force: true });
    assert.ok(!existsSync(pathOf(url)));
    assert.equal(
      statSync(kind === 'shm' ? '/dev/shm' : join(pathOf(url), '..')).isDirectory(),
      true,
    );
  }
});

test('file URLs in each form name one file', (t) => {
  const path = join(temporaryDirectory(t), 'with space & ünï');
  const store = keepOpen(t, openSync(`file:${path}`, SMALL));
  store.set('k', 'v');
  assert.equal(keepOpen(t, openSync(`file://${path}`)).get('k'), 'v');
  assert.equal(inspectSync(`file:${path}`).path, path);
  assert.equal(statSync(path).mode & 0o777, 0o600, 'nobody else may read it');
});

test('options that cannot be', (t) => {
  const { store, url, assertUnharmed } = witness(t, 'file');
  const absurd: Record<string, unknown>[] = [
    ...[0, -1, 1.5, Number.NaN, 'x', 2 ** 60].map((size) => ({ size })),
    ...[0, -1, 1.5, Number.NaN, 'x', 2 ** 40].map((regionSize) => ({ regionSize })),
    ...[0, -1, 0.5, '9', 4096].map((maxClients) => ({ maxClients })),
    ...[0, 65, 1.5, '7', Number.NaN].map((associativity) => ({
      index: { kind: 'race', associativity },
    })),
    ...[0, 1, 65_537, '64'].map((groups) => ({ index: { kind: 'race', groups } })),
    ...[-1, 25, 0.1, '3'].map((maxDepth) => ({ index: { kind: 'race', maxDepth } })),
    { index: { kind: 'race', initialDepth: 3, maxDepth: 2 } },
    ...[8, 96, 4096, '1024'].map((segmentBytes) => ({ index: { kind: 'sephash', segmentBytes } })),
    ...[0, 65, 1.5].map((ratio) => ({ index: { kind: 'sephash', ratio } })),
    ...[-1, 129].map((window) => ({ index: { kind: 'sephash', window } })),
    // Only the lab leaves techniques of a paper out.
    ...[0, 1].map((without) => ({ index: { kind: 'sephash', without } })),
    { index: { kind: 'sephash', filter: false } },
    { index: { kind: 'sephash', maxDepth: 25 } },
    { index: { kind: 'sephash', initialDepth: 3, maxDepth: 2 } },
    ...[1, 1025, '64'].map((span) => ({ index: { kind: 'chime', span } })),
    ...[1, 17, 2.5].map((neighbourhood) => ({ index: { kind: 'chime', neighbourhood } })),
    ...[1, 1025].map((fanout) => ({ index: { kind: 'chime', fanout } })),
    { index: { kind: 'chime', span: 4, neighbourhood: 8 } },
    { index: 'btree' },
    { index: { kind: 'btree' } },
    { index: { groups: 8 } },
    { index: ['race'] },
    { index: { kind: 'race', span: 8 } },
    { index: { kind: 'shard', ordered: false } },
    { index: { kind: 'hopscotch', accessWords: 1 } },
    { index: { kind: 'hstore', sync: 'yes' } },
    { race: { groups: 8 } },
    { keys: 'json' },
    { values: 'text' },
    { values: 5 },
    { client: 5 },
  ];
  for (const options of absurd) {
    const text = JSON.stringify(options);
    throwsCode('SW_INVALID_ARGUMENT', () => openSync('memory:', options), text);
    const fresh = freshUrl(t, 'file');
    throwsCode('SW_INVALID_ARGUMENT', () => openSync(fresh, { ...SMALL, ...options }), text);
    const pool = 'size' in options || 'regionSize' in options || 'maxClients' in options;
    // What describes a new pool is not looked at when the pool exists.
    if (!pool) throwsCode('SW_INVALID_ARGUMENT', () => openSync(url, options), text);
  }
  for (const size of [1, 4096, 1_000_000]) {
    throwsCode('SW_POOL_TOO_SMALL', () => openSync('memory:', { size }));
    throwsCode('SW_POOL_TOO_SMALL', () => openSync(freshUrl(t, 'file'), { size }));
  }
  assert.equal(store.url, url);
  assertUnharmed();
});

test('names of stores', (t) => {
  const { store, assertUnharmed } = witness(t, 'memory');
  const wrong = ['', 'x'.repeat(49), 'é'.repeat(25), '\ud800', 5, null, {}, 'a\udc00'];
  for (const name of wrong) {
    if (name === null) continue;
    const options: OpenOptions = { store: name as string };
    throwsCode('SW_INVALID_ARGUMENT', () => openSync(store.handle, options), String(name));
  }
  for (const name of ['x'.repeat(48), 'é'.repeat(24), ' ', '\0', 'default ', '__proto__']) {
    const other = attachTo(t, store, { store: name });
    other.set('k', name);
    assert.equal(attachTo(t, store, { store: name, create: false }).get('k'), name);
  }
  assert.equal(inspectSync(store.handle).stores.length, 7);
  assertUnharmed();
});

test('parameters that differ from those of the store', (t) => {
  const race = { kind: 'race', associativity: 3, groups: 8, initialDepth: 1, maxDepth: 9 } as const;
  const { store, assertUnharmed } = witness(t, 'memory', { index: race });
  for (const other of [
    { associativity: 4 },
    { groups: 9 },
    { initialDepth: 0 },
    { maxDepth: 10 },
  ]) {
    const index = { kind: 'race', ...other } as const;
    throwsCode('SW_STORE_MISMATCH', () => openSync(store.handle, { index }));
    const options = { index: { ...race, ...other }, create: false };
    throwsCode('SW_STORE_MISMATCH', () => openSync(store.handle, options));
  }
  for (const same of [{}, race, { groups: 8 }, { groups: undefined }]) {
    attachTo(t, store, { index: { ...same, kind: 'race' } }).close();
  }
  // A refused client leaves no row behind.
  assert.equal(inspectSync(store.handle).clients.length, 3);
  assertUnharmed();
});

test('more clients than rows', (t) => {
  const { store, assertUnharmed } = witness(t, 'memory', { maxClients: 4 });
  const third = attachTo(t, store);
  const fourth = attachTo(t, store);
  for (let i = 0; i < 20; i++) {
    throwsCode('SW_TOO_MANY_CLIENTS', () => openAloneSync(store.handle));
    openSync(store.handle, { store: 'a row that this thread has' }).close();
    throwsCode('SW_TOO_MANY_CLIENTS', () => inspectSync(store.handle));
  }
  fourth.close();
  const again = attachTo(t, store);
  again.set('k', 'v');
  assert.equal(third.get('k'), 'v');
  again.close();
  assertUnharmed();
});

test('rows of clients come free and are told by their names', (t) => {
  const store = freshStore(t, 'memory', { maxClients: 3, client: 'first' });
  for (let i = 0; i < 40; i++) attachTo(t, store, { client: `client ${i}` }).close();
  attachTo(t, store, { client: 'a client name of more than 32 bytes, ünïcode' });
  const { clients } = inspectSync(store.handle);
  assert.equal(clients.length, 3);
  assert.equal(clients[0].name, 'first');
  assert.equal(clients[1].name, 'a client name of more than 32 by');
  assert.ok(clients.every(({ alive, pid }) => alive && pid === process.pid));
});

test('many stores of one process cause no warning', async (t) => {
  const warnings: Error[] = [];
  const note = (warning: Error) => warnings.push(warning);
  process.on('warning', note);
  t.after(() => process.off('warning', note));
  const store = freshStore(t, 'memory', { maxClients: 40 });
  for (let i = 0; i < 30; i++) attachTo(t, store);
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.deepEqual(warnings, []);
});

test('an option with a name that there is not is refused, with the names that there are', async (t) => {
  const store = freshStore(t);
  const { handle } = store;
  const mistyped: Record<string, () => unknown> = {
    openSync: () => openSync(handle, { vales: 'utf8' } as object),
    open: () => open(handle, { stor: 'users' } as object),
    createSync: () => createSync('shm:never-made', { siz: 1 } as object),
    destroySync: () => destroySync('shm:never-made', { forse: true } as object),
    checkSync: () => checkSync(handle, { progress: () => {} } as object),
    write: () => store.write('k', 'v', { wen: 'absent' } as object),
    getMany: () => store.getMany(['k'], { maxByte: 1 } as object),
    scanKeys: () => store.scanKeys(0, 1, { prefx: 'a' } as object),
  };
  for (const [call, mistake] of Object.entries(mistyped)) {
    await assert.rejects(
      async () => mistake(),
      { code: 'SW_INVALID_ARGUMENT', message: /there is no option '\w+'; there is \w+/ },
      call,
    );
  }
});

test('callbacks that are no function, and flags that are no boolean', async (t) => {
  const url = freshUrl(t, 'file');
  createSync(url, SMALL);
  const remote = 'tcp://127.0.0.1:9/x';
  for (const wrong of [5, 'yes', null, {}] as never[]) {
    const calls: Record<string, () => unknown> = {
      checkSync: () => checkSync(url, { onProgress: wrong }),
      'check over a network': () => check(remote, { onProgress: wrong }),
      'check, sweep': () => checkSync(url, { sweep: wrong }),
      copyPool: () => copyPool(url, `${url}2`, { onProgress: wrong }),
      'copyPool, live': () => copyPool(url, `${url}2`, { live: wrong }),
      'copyPool, signal': () => copyPool(url, `${url}2`, { signal: wrong }),
      'copyPool, stores': () => copyPool(url, `${url}2`, { stores: wrong }),
      memoryNodes: () => memoryNodes(remote, { onProgress: wrong }),
      'memoryNodes, signal': () => memoryNodes(remote, { signal: wrong }),
      destroySync: () => destroySync(url, { force: wrong }),
      'destroy over a network': () => destroy(remote, { force: wrong }),
      create: () => openSync(url, { create: wrong }),
    };
    for (const [what, call] of Object.entries(calls)) {
      const mistake = async () => call();
      await rejectsCode('SW_INVALID_ARGUMENT', mistake, `${what}: ${String(wrong)}`);
    }
  }
  assert.ok(existsSync(pathOf(url)));
});

test('a clock that tells no time raises an error, and nothing is stored by it', async (t) => {
  const time: { now: unknown } = { now: 1_700_000_000_000 };
  const store = freshStore(t, 'memory', { clock: () => time.now as number });
  store.set('k', 'v', { ttlMs: 1000 });
  for (const now of [Number.NaN, -1, Number.POSITIVE_INFINITY, 2 ** 60, '5', undefined, null]) {
    time.now = now;
    throwsCode('SW_INVALID_ARGUMENT', () => store.set('l', 'v', { ttlMs: 1000 }), String(now));
    throwsCode('SW_INVALID_ARGUMENT', () => store.append('l', 'v', { ttlMs: 1000 }));
    throwsCode('SW_INVALID_ARGUMENT', () => store.incrementWithin('l', 1, { ttlMs: 1000 }));
    time.now = 1_700_000_000_500;
    assert.equal(store.has('l'), false);
    assert.equal(store.ttl('k'), 500);
  }
  assert.deepEqual(checkSync(store.handle).problems, []);
});

test('every code that is raised on purpose is documented in errors.ts', () => {
  const source = new URL('../../', import.meta.url);
  const files = readdirSync(source, { recursive: true, encoding: 'utf8' });
  const product = files.filter((file) => file.endsWith('.ts') && !/test/.test(file));
  const read = (file: string) => readFileSync(new URL(file, source), 'utf8');
  const documented = new Set(read('errors.ts').match(/SW_[A-Z_]+/g));
  for (const file of product) {
    for (const code of read(file).match(/'SW_[A-Z_]+'/g) ?? []) {
      assert.ok(documented.has(code.slice(1, -1)), `${code} in ${file}`);
    }
  }
});

test('an object without a format is refused with what to do', (t) => {
  const store = keepOpen(t, openSync('memory:', SMALL));
  for (const value of [{}, [], 5, true, null, new Date()]) {
    const set = () => store.set('a', value as never);
    throwsCode('SW_INVALID_VALUE', set, String(value));
    assert.throws(set, { message: /values: 'json'/ }, String(value));
  }
});
