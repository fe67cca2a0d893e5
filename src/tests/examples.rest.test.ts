import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join, resolve } from 'node:path';
import { before, describe, it } from 'node:test';
import { promisify } from 'node:util';

const ROOT = resolve(import.meta.dirname, '../..');
const EXAMPLES = join(ROOT, 'examples');
const SMALL = { WORKERS: '2', RECORDS: '5000', REQUESTS: '60', EVENTS: '300', JOBS: '300' };

/** What each finds out, and says in its last words. */
const FINDINGS: Readonly<Record<string, object>> = {
  'cluster/main.mjs': { workers: 2, visits: 21, allowed: 20, refused: 40 },
  'cluster/pm2.mjs': { workers: 2, visits: 21, allowed: 20, refused: 40 },
  'piscina/main.mjs': { records: 5000, lookups: 5056, found: 5056 },
  'fastify/main.mjs': { requests: 60, articles: 10, loads: 10, workers: 2 },
  'events/main.mjs': { events: 300, writers: 2, gaps: 0, left: 1 },
  'jobs/main.mjs': { jobs: 300, done: 300, results: 300, left: 0 },
  'network/main.mjs': { clients: 2, jobs: 100, done: 100 },
};

/** The package as the examples find it, from the sources that are tested. */
function install(): void {
  const text = readFileSync(join(ROOT, 'package.json'), 'utf8').replaceAll('./dist/', './src/');
  const folder = join(EXAMPLES, 'node_modules/stepwell');
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'package.json'), text);
  symlinkSync(join(ROOT, 'src'), join(folder, 'src'));
}

async function run(example: string): Promise<Record<string, unknown>> {
  const env = { ...process.env, ...SMALL };
  const { stdout } = await promisify(execFile)(process.execPath, [join(EXAMPLES, example)], {
    env,
  });
  const [found] = /\{.*\}$/m.exec(stdout) ?? [];
  assert.ok(found, stdout);
  return JSON.parse(found);
}

describe('examples', { concurrency: true, timeout: 60_000 }, () => {
  before(install);

  for (const [example, expected] of Object.entries(FINDINGS)) {
    it(`${example} shows what it is for`, async () => {
      const found = await run(example);
      const wanted = Object.fromEntries(Object.keys(expected).map((name) => [name, found[name]]));
      assert.deepEqual(wanted, expected);
    });
  }

  it('each is run here, and names the packages that it imports', () => {
    // What is no package of Node is a script for two machines (rdma).
    const folders = readdirSync(EXAMPLES).filter((name) =>
      existsSync(join(EXAMPLES, name, 'package.json')),
    );
    assert.deepEqual(folders.sort(), [...new Set(Object.keys(FINDINGS).map(folderOf))].sort());
    for (const folder of folders) {
      const read = (file: string) => readFileSync(join(EXAMPLES, folder, file), 'utf8');
      const { dependencies } = JSON.parse(read('package.json'));
      const files = readdirSync(join(EXAMPLES, folder)).filter((file) => file.endsWith('.mjs'));
      const imports = files.flatMap((file) =>
        [...read(file).matchAll(/(?:from|import\() ?'([^.'][^':]*)'/g)].map(([, name]) => name),
      );
      const named = new Set(imports.map((name) => name.replace(/\/.*/, '')));
      assert.deepEqual([...named].sort(), Object.keys(dependencies).sort(), folder);
    }
  });
});

function folderOf(example: string): string {
  return example.split('/')[0];
}
