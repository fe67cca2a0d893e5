import { cpSync, existsSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { APP, COMMON_APP, type Folder, type Place } from './folder.ts';

/** One part of what `TOGETHER` starts; it runs in every runtime. */
const PART = `
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { openSync } from 'stepwell';
import { lease } from 'stepwell/helpers';

const COUNTS = 50_000;
const store = openSync(process.env.POOL);
const parts = {
  /** Two threads that count, once as many threads of all processes are ready. */
  async count(threads) {
    const ended = [0, 1].map(() => new Promise((resolve, reject) => {
      const worker = new Worker(process.argv[1], { workerData: Number(threads) });
      worker.on('error', reject);
      worker.on('message', resolve);
    }));
    await Promise.all(ended);
    console.log('counted', 2 * COUNTS);
    process.exit();
  },
  async hold() {
    await lease(store, 'job', { ttlMs: 3_600_000 });
    console.log('held');
    // It is killed long before, unless what started it has failed.
    const end = Date.now() + 60_000;
    for (let i = 0; Date.now() < end; i++) store.set('key ' + (i % 1000), 'x'.repeat(i % 100));
    process.exit(1);
  },
  async take() {
    const held = await lease(store, 'job', { ttlMs: 3_600_000, waitMs: 60_000 });
    // To a double, each word of these bytes is a NaN, of which an interpreter may know only one.
    const bytes = new Uint8Array(64).fill(255);
    for (let i = 0; i < 100; i++) {
      store.set('bytes', bytes);
      if (Buffer.compare(store.get('bytes'), bytes) !== 0) throw new Error('other bytes');
    }
    for (let i = 0; i < 1000; i++) store.set('key ' + i, 'taken');
    await held.release();
    store.close();
    console.log('taken');
  },
};

if (isMainThread) {
  const [part, ...words] = process.argv.slice(2);
  await parts[part](...words);
} else {
  const sleeper = new Int32Array(new SharedArrayBuffer(4));
  store.increment('ready');
  while (Number(store.get('ready')) < workerData) Atomics.wait(sleeper, 0, 0, 1);
  for (let i = 0; i < COUNTS; i++) store.increment('hits');
  store.close();
  parentPort.postMessage('done');
}
`;
/** Node beside another runtime, on one pool: `together.mjs PROGRAM WORD…`. */
const TOGETHER = `
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { checkSync, createSync, destroySync, openSync } from 'stepwell';

const OTHER = process.argv.slice(2);
const NODE = [process.execPath];
const pool = process.env.POOL;
createSync(pool, { size: '64m' });

function start([program, ...words], ...part) {
  const child = spawn(program, [...words, 'part.mjs', ...part], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  child.printed = '';
  process.on('exit', () => child.kill('SIGKILL'));
  child.stdout.setEncoding('utf8').on('data', (text) => (child.printed += text));
  return child;
}
async function printed(child) {
  const [code] = await once(child, 'close');
  if (code !== 0) throw new Error(child.spawnargs.join(' ') + ' ended with ' + code);
  return child.printed;
}

const counted = [NODE, OTHER].map((runtime) => printed(start(runtime, 'count', '4')));
let expected = 0;
for (const text of await Promise.all(counted)) expected += Number(/^counted (\\d+)$/m.exec(text)[1]);
const store = openSync(pool);
const hits = Number(store.get('hits'));
if (hits !== expected) throw new Error(hits + ' of ' + expected + ' increments');
store.close();

for (const [holder, next] of [[OTHER, NODE], [NODE, OTHER]]) {
  const child = start(holder, 'hold');
  while (!child.printed.includes('held')) {
    if (child.exitCode !== null) throw new Error('the holder ended with ' + child.exitCode);
    await Promise.race([once(child.stdout, 'data'), once(child, 'exit')]);
  }
  // In the middle of its writes.
  await new Promise((resolve) => setTimeout(resolve, 50));
  child.kill('SIGKILL');
  await once(child, 'close');
  if (!/^taken$/m.test(await printed(start(next, 'take')))) throw new Error('not taken');
}
const { problems } = checkSync(pool);
if (problems.length > 0) throw new Error(JSON.stringify(problems));
destroySync(pool);
console.log('kept');
`;
const LEVEL = `
import { createRequire } from 'node:module';
import tape from 'tape';
import { StepwellLevel } from 'stepwell/level';

const suite = createRequire(process.argv[1])('abstract-level/test');
suite({ test: tape, factory: (options) => new StepwellLevel('memory:', options) });
`;
/** Prints which binary of koffi a process has mapped. */
const LOADED = `
const { destroySync, openSync } = require('stepwell');
openSync(process.env.POOL, { size: 2 ** 22 }).close();
destroySync(process.env.POOL);
console.log(require('node:fs').readFileSync('/proc/self/maps', 'utf8'));
`;
/** As many as pass on Node, roughly: a suite that ends early passes as well. */
const ASSERTIONS_MIN = 4500;

const SHOWS =
  '`import`, `require`, and beside Node: threads that count at the same time, and leases of ' +
  'processes killed while they write; `abstract-level`’s suite';

/** `words`: how the runtime starts a program. */
function runs(folder: Folder, words: readonly string[]): void {
  folder.install('abstract-level', 'tape');
  folder.write({
    'app.mjs': APP,
    'app.cjs': COMMON_APP,
    'part.mjs': PART,
    'together.mjs': TOGETHER,
    'level.mjs': LEVEL,
  });
  const [program, ...options] = words;
  for (const app of ['app.mjs', 'app.cjs']) folder.keeps(folder.run(program, ...options, app));
  folder.keeps(folder.node('together.mjs', ...words));
  const printed = folder.run(program, ...options, 'level.mjs');
  const passed = Number(/^# pass +(\d+)$/m.exec(printed)?.[1]);
  if (!/^# ok$/m.test(printed) || !(passed >= ASSERTIONS_MIN)) {
    throw new Error(
      printed
        .split('\n')
        .filter((line) => /^(not ok|#)/.test(line))
        .join('\n'),
    );
  }
}

export const BUN: Place = {
  name: 'Bun',
  shows: SHOWS,
  run(folder) {
    const tools = folder.tool('bun');
    runs(folder, [join(tools, '.bin/bun')]);
    return folder.version('bun', tools);
  },
};

export const DENO: Place = {
  name: 'Deno',
  shows: `${SHOWS}; with \`deno run -A\``,
  run(folder) {
    const tools = folder.tool('deno');
    // npm starts it by a process of its own, which a signal would end in its place.
    const deno = folder.run(join(tools, '.bin/deno'), 'eval', 'console.log(Deno.execPath())');
    runs(folder, [deno.trim(), 'run', '-A']);
    return folder.version('deno', tools);
  },
};

const LOADER = '/lib/ld-musl-x86_64.so.1';
/** What Debian's C++ libraries ask of glibc and musl does not have. */
const MISSING_IN_MUSL = `
typedef unsigned long size_t;
typedef void *locale_t;
struct tm;
long getrandom(void *, size_t, unsigned);
size_t strftime_l(char *, size_t, const char *, const struct tm *, locale_t);
char __libc_single_threaded = 0;
struct { unsigned bits[4]; } __cpu_model;
unsigned arc4random(void) {
  unsigned value;
  getrandom(&value, sizeof value, 0);
  return value;
}
size_t __strftime_l(char *to, size_t n, const char *as, const struct tm *t, locale_t in) {
  return strftime_l(to, n, as, t, in);
}
int __cxa_thread_atexit_impl(void (*end)(void *), void *object, void *library) { return 0; }
int _dl_find_object(void *code, void *found) { return -1; }
int __cpu_indicator_init(void) { return 0; }
`;
const CPP_LIBRARIES = ['libstdc++.so.6', 'libgcc_s.so.1'];
const C_LIBRARIES = ['libc.musl-x86_64.so.1', 'libc.so.6', 'libm.so.6', 'ld-linux-x86-64.so.2'];

/** musl is Alpine's C library. Alpine brings C++ libraries for it; Debian's need some help. */
const MUSL: Place = {
  name: 'Bun for musl',
  shows: `${SHOWS}; in Debian’s musl, with koffi’s binary for musl`,
  run(folder) {
    if (!existsSync(LOADER)) throw new Error('there is no musl: apt-get install musl gcc');
    // npm leaves packages for another C library out unless they are named.
    const name = '@oven/bun-linux-x64-musl';
    const tools = folder.tool('--force', '--libc=musl', name);
    for (const library of CPP_LIBRARIES) {
      cpSync(`/lib/x86_64-linux-gnu/${library}`, join(tools, library), { dereference: true });
    }
    for (const library of C_LIBRARIES) symlinkSync(LOADER, join(tools, library));
    const helped = join(tools, 'missing.so');
    folder.write({ 'missing.c': MISSING_IN_MUSL });
    folder.run('gcc', '-shared', '-fPIC', '-nostdlib', '-w', '-o', helped, 'missing.c');
    const started = [LOADER, '--library-path', tools, '--preload', helped];
    const bun = [...started, join(tools, name, 'bin/bun')];
    runs(folder, bun);
    const loaded = folder.run(bun[0], ...bun.slice(1), '-e', LOADED);
    if (!loaded.includes('/musl_x64/koffi.node')) throw new Error(`it loaded ${loaded}`);
    return folder.version(name, tools);
  },
};

export const RUNTIMES: readonly Place[] = [BUN, DENO, MUSL];
