/** What the system, and Node's permission model, refuse: a code and a remedy for each. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, lstatSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { checkSync, createSync, destroySync, inspectSync, openSync } from '../open.ts';
import { startMemoryNode } from '../servers/memory-node.ts';
import { bundled } from './support/bundled.ts';
import { makeReadOnly, NO_MOUNTS, smallFileSystem } from './support/file-systems.ts';
import { keepOpen, SMALL, temporaryDirectory } from './support/pools.ts';

/** Each call on a pool at the path, by name, with the code and the message of its error. */
async function outcomesAt(path: string): Promise<Record<string, string>> {
  const url = `file:${path}`;
  const calls = {
    open: () => openSync(url, SMALL),
    attach: () => openSync(url, { create: false }),
    create: () => createSync(url, SMALL),
    inspect: () => inspectSync(url),
    check: () => checkSync(url),
    destroy: () => destroySync(url),
    'memory node': () => startMemoryNode({ file: path, port: 0, size: 2 ** 20 }),
  };
  const outcomes: Record<string, string> = {};
  for (const [name, call] of Object.entries(calls)) {
    try {
      await call();
      outcomes[name] = 'fine';
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      outcomes[name] = `${code} ${message}`;
    }
  }
  return outcomes;
}

function assertAll(outcomes: Record<string, string>, expected: RegExp, but = {}): void {
  const differing = new Map<string, RegExp>(Object.entries(but));
  for (const [name, outcome] of Object.entries(outcomes)) {
    assert.match(outcome, differing.get(name) ?? expected, name);
  }
}

test('paths that cannot be those of a pool', async (t) => {
  const folder = temporaryDirectory(t);
  mkdirSync(join(folder, 'directory'));
  writeFileSync(join(folder, 'file'), 'no pool');
  symlinkSync('two', join(folder, 'one'));
  symlinkSync('one', join(folder, 'two'));
  const at = (...parts: string[]) => outcomesAt(join(folder, ...parts));
  assertAll(await at('directory'), /^SW_POOL_FOREIGN .* is a directory; name a file in it/);
  assertAll(await at('file', 'x'), /^SW_INVALID_URL .* is a file and no directory; correct/);
  assertAll(await at('one'), /^SW_INVALID_URL .* in circles/);
  const long = await at('x'.repeat(300));
  assertAll(long, /^SW_INVALID_URL .*… \(\d+ characters\) is too long .*; use a shorter one/);
  assertAll(await at('file'), /^SW_POOL_FOREIGN .* is not a Stepwell pool/);
  assertAll(await outcomesAt('/proc/x'), /^SW_POOL_NOT_FOUND no pool at file:\/proc\/x$/, {
    open: /^SW_UNSUPPORTED no file can be made at file:\/proc\/x; put the pool elsewhere/,
    create: /^SW_UNSUPPORTED/,
    'memory node': /^SW_UNSUPPORTED/,
  });
  const missing = /^SW_DIRECTORY_NOT_FOUND the directory .*missing of .* does not exist; make it/;
  const nothing = /^SW_POOL_NOT_FOUND/;
  const makers = { open: missing, create: missing, 'memory node': missing };
  assertAll(await at('missing', 'x'), nothing, makers);
  symlinkSync('missing/x', join(folder, 'astray'));
  assertAll(await at('astray'), nothing, makers);
});

test('a symbolic link outlives the pool that it leads to, and leads to the next one', (t) => {
  const folder = temporaryDirectory(t);
  mkdirSync(join(folder, 'disk'));
  const link = join(folder, 'link');
  symlinkSync('disk/pool', link);
  for (const round of ['first', 'second']) {
    const store = openSync(`file:${link}`, SMALL);
    assert.equal(store.get('k'), undefined);
    store.set('k', round);
    const other = keepOpen(t, openSync(`file:${join(folder, 'disk/pool')}`));
    assert.equal(other.get('k'), round);
    destroySync(`file:${link}`, { force: true });
    assert.equal(existsSync(join(folder, 'disk/pool')), false);
    assert.ok(lstatSync(link).isSymbolicLink());
  }
});

test('a file system that is read-only', async (t) => {
  const directory = smallFileSystem(t, 8);
  if (directory === undefined) return t.skip(NO_MOUNTS);
  openSync(`file:${directory}/pool`, { size: 4 * 2 ** 20 }).close();
  makeReadOnly(directory);
  const refused = /^SW_PERMISSION_DENIED .* is read-only; put the pool on one that can be written/;
  const exists = { create: /^SW_POOL_EXISTS .*choose another name/ };
  assertAll(await outcomesAt(`${directory}/pool`), refused, exists);
  const makers = { open: refused, create: refused, 'memory node': refused };
  assertAll(await outcomesAt(`${directory}/none`), /^SW_POOL_NOT_FOUND/, makers);
});

/** The root user without its right over files of any mode; undefined where that cannot be had. */
function asOrdinaryUser(): string[] | undefined {
  if (process.getuid?.() !== 0) return [];
  const without = '-dac_override,-dac_read_search';
  const words = ['setpriv', `--bounding-set=${without}`, `--inh-caps=${without}`];
  return spawnSync(words[0], [...words.slice(1), 'true']).status === 0 ? words : undefined;
}

const CALLS = `import ${JSON.stringify(join(import.meta.dirname, 'support/refused-calls.ts'))};`;

function outcomesOf(words: string[]): Record<string, string> {
  // What a test run preloads, a program with few rights may not read.
  const env = { ...process.env, NODE_NO_WARNINGS: '1', NODE_OPTIONS: '' };
  return JSON.parse(execFileSync(words[0], words.slice(1), { env, encoding: 'utf8' }));
}

test('files and directories of another user', (t) => {
  const user = asOrdinaryUser();
  if (user === undefined) return t.skip('needs setpriv, and the right to give up rights');
  const app = bundled(t, CALLS);
  const outcomes = outcomesOf([...user, process.execPath, app, 'mode', dirname(app)]);
  const denied = /^SW_PERMISSION_DENIED .*belongs to the user that made it \(mode 600\); run as/;
  const closed = '.*/directory for .*(EACCES)';
  assertAll(outcomes, denied, {
    create: /^SW_POOL_EXISTS .*choose another name/,
    'destroy in a closed directory': new RegExp(
      `^SW_PERMISSION_DENIED .*not .*remove this file from ${closed}`,
    ),
    'create in a closed directory': new RegExp(
      `^SW_PERMISSION_DENIED .*not .*make files in ${closed}`,
    ),
    'memory node in a closed directory': new RegExp(
      `^SW_PERMISSION_DENIED .*not .*make files in ${closed}`,
    ),
    // What could not be taken away is there as before.
    'open afterwards': /^fine$/,
    'destroy in an open directory': /^fine$/,
  });
});

/** Before Node 22.13 it had the longer name. */
const PERMISSION = ['--permission', '--experimental-permission'].find((flag) =>
  process.allowedNodeEnvironmentFlags.has(flag),
);

function underPermission(t: TestContext, rights: (folder: string) => string[]) {
  const app = bundled(t, CALLS);
  const folder = dirname(app);
  const flags = [PERMISSION as string, ...rights(folder)];
  return outcomesOf([process.execPath, ...flags, app, 'rights', folder]);
}

test('what Node’s permission model refuses, with the option that allows it', (t) => {
  const files = ['--allow-fs-read=*'];
  const noWrites = underPermission(t, () => [...files, '--allow-addons']);
  const rights =
    /^SW_PERMISSION_DENIED .*--allow-fs-write=\/.*stepwell-test-\w+ \(ERR_ACCESS_DENIED\)$/;
  assertAll(noWrites, rights, {
    memory: /^fine$/,
    list: /^fine$/,
    thread: /^SW_PERMISSION_DENIED .*add --allow-worker$/,
  });
  const writes = (folder: string) => [...files, `--allow-fs-write=${folder}`, '--allow-worker'];
  const noAddons = underPermission(t, writes);
  const addons = /^SW_PERMISSION_DENIED .*koffi.*add --allow-addons/;
  assertAll(noAddons, /^SW_POOL_NOT_FOUND/, {
    open: addons,
    create: addons,
    memory: /^fine$/,
    list: /^fine$/,
    thread: /^fine$/,
  });
  const all = underPermission(t, (folder) => [...writes(folder), '--allow-addons']);
  assertAll(all, /^fine$/);
});

test('what Node’s permission model hides', (t) => {
  const outcomes = underPermission(t, (folder) => [
    `--allow-fs-read=${folder}`,
    `--allow-fs-write=${folder}`,
    '--allow-addons',
    '--allow-worker',
  ]);
  assertAll(outcomes, /^SW_PERMISSION_DENIED .*koffi.* --allow-fs-read of its files/, {
    memory: /^SW_PERMISSION_DENIED a pool needs \/proc .*add --allow-fs-read=\/proc$/,
    inspect: /^SW_POOL_NOT_FOUND/,
    destroy: /^SW_POOL_NOT_FOUND/,
    list: /^SW_PERMISSION_DENIED .*from \/dev\/shm; add --allow-fs-read=\/dev\/shm /,
    thread: /^fine$/,
  });
});
