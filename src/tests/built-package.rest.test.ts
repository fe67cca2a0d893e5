import '../../scripts/fresh-build.mjs';
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, extname, join, resolve } from 'node:path';
import { test } from 'node:test';
import { ucxMissing } from '../fabrics/ucx/tests/support/nodes.ts';
import { INDEX_KINDS } from '../indexes/kinds.ts';
import type { IndexName } from '../store/api.ts';
import { bundled } from '../store/tests/support/bundled.ts';
import { type Scope, temporaryDirectory } from '../store/tests/support/pools.ts';

/** What `npm run build` has put together (scripts/bundle.ts), and what that starts by itself. */
const ROOT = resolve(import.meta.dirname, '../..');
const PACKAGE = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
const COMMAND = join(ROOT, PACKAGE.bin.stepwell);
/** What has nearly all of the code. */
const TOGETHER = readdirSync(join(ROOT, 'dist'))
  .filter((file) => file.endsWith('.js'))
  .map((file) => join(ROOT, 'dist', file));
const MODULES: string[] = Object.values<{ default?: string }>(PACKAGE.exports).flatMap(
  (entry) => entry.default ?? [],
);

type Library = typeof import('../index.ts');
type Helpers = typeof import('../helpers/index.ts');
const library: Library = await import(join(ROOT, 'dist/index.js'));

function run(...words: string[]): string {
  return execFileSync(process.execPath, [COMMAND, ...words], { encoding: 'utf8' });
}

/** Starts a server of the command; returns what `pattern` finds in what it prints. */
async function serving(scope: Scope, pattern: RegExp, ...words: string[]): Promise<string> {
  const child = spawn(process.execPath, [COMMAND, ...words], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  scope.after(async () => {
    child.kill('SIGTERM');
    if (child.exitCode === null) await once(child, 'exit');
  });
  let printed = '';
  child.stdout.setEncoding('utf8');
  for (;;) {
    const [text] = await Promise.race([once(child.stdout, 'data'), once(child, 'exit')]);
    assert.equal(typeof text, 'string', `${words.join(' ')} ended: ${printed}`);
    printed += text;
    const found = pattern.exec(printed);
    if (found !== null) return found[1];
  }
}

for (const file of MODULES) {
  test(`${file} exports what its source exports`, async () => {
    const source = file.replace('./dist/', '../').replace(/\.js$/, extname(import.meta.filename));
    const names = Object.keys(await import(source)).sort();
    assert.ok(names.length > 0);
    const exported = Object.keys(await import(join(ROOT, file)));
    // What Node adds to every module that was CommonJS.
    const own = exported.filter((name) => name !== 'default' && name !== 'module.exports');
    assert.deepEqual(own.sort(), names);
  });
}

for (const { manifest } of INDEX_KINDS) {
  test(`the package opens a store of ${manifest.name}`, () => {
    const index = manifest.name as IndexName;
    using store = library.openSync('memory:', { index, size: 2 ** 25 });
    for (let i = 0; i < 2000; i++) store.set(`key ${i}`, `value ${i}`);
    assert.equal(store.get('key 1999'), 'value 1999');
    assert.equal(store.size, 2000);
  });
}

test('require and import load one library', () => {
  assert.equal(createRequire(import.meta.url)(join(ROOT, 'dist/index.js')).open, library.open);
});

test('a program that imports the package loads nothing of networks or of other indexes', () => {
  const program = `require(${JSON.stringify(join(ROOT, 'dist/index.js'))})
    .openSync('memory:').set('k', 'v');
    const ours = Object.keys(require.cache).filter((file) => file.includes('dist'));
    console.log(ours.map((file) => require('path').basename(file)).join());`;
  const loaded = execFileSync(process.execPath, ['-e', program], { encoding: 'utf8' });
  assert.equal(loaded.trim(), 'index.js,stepwell.js');
});

test('no file of the package names what only its development has', () => {
  for (const file of TOGETHER) {
    assert.doesNotMatch(readFileSync(file, 'utf8'), /['"/]tsx['"/]/);
  }
});

test('entries of the package share their classes', async () => {
  const { lease }: Helpers = await import(join(ROOT, 'dist/helpers/index.js'));
  await using store = library.openSync('memory:', { size: 2 ** 22 });
  await assert.rejects(lease(store, 'a', { ttlMs: -1 }), library.StepwellError);
});

for (const fabric of ['tcp', 'ucx']) {
  const skip = fabric === 'ucx' && ucxMissing();
  test(`the package serves and opens memory over ${fabric}`, { skip }, async (scope) => {
    const words = ['--listen', '127.0.0.1:0', '--size', '32m', '--fabric', fabric];
    const url = await serving(scope, /((?:tcp|ucx):\/\/\S+)/, 'memory-node', ...words);
    run('set', url, 'greeting', 'hello');
    await using store = await library.open(url);
    assert.equal(await store.get('greeting'), 'hello');
  });
}

test('the package measures and dumps', (scope) => {
  const json = run('bench', '--records', '100', '--seconds', '0.01', '--json', '-');
  assert.ok(JSON.parse(json));
  const url = `file:${join(temporaryDirectory(scope), 'pool')}`;
  run('set', url, 'a', 'b');
  assert.match(run('dump', url), /"a"/);
  assert.equal(run('--version').trim(), `stepwell ${PACKAGE.version}`);
});

test('the package serves the page and Redis clients', async (scope) => {
  const words = ['shm:built-package', '--port', '0', '--web', '127.0.0.1:0'];
  scope.after(() => library.destroySync('shm:built-package', { force: true }));
  const page = await serving(scope, /(http:\/\/127\.0\.0\.1:\d+)/, 'serve', ...words);
  for (const file of ['', 'main.js', 'page.css']) {
    const answer = await fetch(`${page}/${file}`);
    assert.equal(answer.status, 200, file);
  }
});

test('the threads that the package starts are where it looks for them', () => {
  const starts = /startWorker\(hereUrl\.replace\(\S+ "(\S*)"\), "([a-z-]+)"/g;
  const found = TOGETHER.flatMap((file) =>
    [...readFileSync(file, 'utf8').matchAll(starts)].map(([, place, name]) =>
      join(dirname(file), dirname(place), `${name}.js`),
    ),
  );
  for (const file of found) assert.ok(existsSync(file), file);
  for (const name of ['worker', 'litmus-thread']) {
    assert.ok(
      found.some((file) => file.endsWith(`/${name}.js`)),
      name,
    );
  }
});

test('the files of the package have maps that lead to its sources', () => {
  const all = new Set<string>();
  for (const file of TOGETHER) {
    const map = JSON.parse(readFileSync(`${file}.map`, 'utf8')) as { sources: string[] };
    for (const source of map.sources) {
      assert.match(source, /\/src\/.*\.ts$/);
      assert.ok(existsSync(resolve(dirname(file), source)), source);
      all.add(source);
    }
  }
  assert.ok(all.size > 400);
});

for (const format of ['esm', 'cjs'] as const) {
  test(`an application bundles the package into ${format} modules`, (scope) => {
    const program = "import { openSync } from 'stepwell'; console.log(openSync('memory:').size);";
    const file = bundled(scope, program, { format, from: join(ROOT, 'dist/index.js') });
    assert.equal(execFileSync(process.execPath, [file], { encoding: 'utf8' }), '0\n');
  });

  test(`a program elsewhere loads a bundle of ${format} modules, which finds koffi`, (scope) => {
    const program = `import { openSync } from 'stepwell';
      console.log(openSync('file:' + process.env.POOL, { size: 2 ** 22 }).size);`;
    const file = bundled(scope, program, { format, from: join(ROOT, 'dist/index.js') });
    const main = join(temporaryDirectory(scope), 'main.mjs');
    writeFileSync(main, `import ${JSON.stringify(file)};`);
    const env = { ...process.env, POOL: join(dirname(file), 'pool') };
    assert.equal(execFileSync(process.execPath, [main], { env, encoding: 'utf8' }), '0\n');
  });
}
