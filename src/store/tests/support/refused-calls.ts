/**
 * A program whose process the system, or Node, refuses something. Prints as JSON, for each call,
 * `fine` or the code and the message of its error.
 */
import { chmodSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { checkSync, createSync, destroySync, inspectSync, listPools, openSync } from 'stepwell';
import { startWorker } from '../../../fabrics/start-worker.ts';
import { startMemoryNode } from '../../servers/memory-node.ts';

const SIZE = { size: 4 * 2 ** 20 };
const outcomes: Record<string, string> = {};

async function note(what: string, call: () => unknown): Promise<void> {
  try {
    await call();
    outcomes[what] = 'fine';
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    outcomes[what] = `${code} ${message}`;
  }
}

/** Refused by the mode of a pool's file, and then of its directory. */
async function byMode(folder: string): Promise<void> {
  const directory = join(folder, 'directory');
  const url = `file:${join(directory, 'pool')}`;
  const file = url.slice('file:'.length);
  mkdirSync(directory);
  openSync(url, SIZE).close();
  chmodSync(file, 0);
  await note('open', () => openSync(url));
  await note('create', () => createSync(url));
  await note('inspect', () => inspectSync(url));
  await note('check', () => checkSync(url));
  await note('destroy', () => destroySync(url, { force: true }));
  await note('memory node', () => startMemoryNode({ file, port: 0 }));
  chmodSync(file, 0o600);
  chmodSync(directory, 0o555);
  await note('destroy in a closed directory', () => destroySync(url));
  await note('open afterwards', () => openSync(url, { create: false }).close());
  await note('create in a closed directory', () => createSync(`${url}-2`, SIZE));
  await note('memory node in a closed directory', () => {
    return startMemoryNode({ file: `${file}-2`, port: 0 });
  });
  chmodSync(directory, 0o755);
  await note('destroy in an open directory', () => destroySync(url));
}

/** Refused by the rights that Node was started with. */
async function byRights(folder: string): Promise<void> {
  const url = `file:${join(folder, 'pool')}`;
  await note('memory', () => openSync('memory:', SIZE).close());
  await note('open', () => openSync(url, SIZE).close());
  await note('create', () => createSync(`${url}-2`, SIZE));
  await note('inspect', () => inspectSync(url));
  await note('destroy', () => destroySync(url));
  await note('list', () => listPools());
  await note('thread', () => startWorker('file:///tmp/here.js', 'no-such-worker', {}).terminate());
}

const [, , task, folder] = process.argv;
await (task === 'mode' ? byMode(folder) : byRights(folder));
console.log(JSON.stringify(outcomes));
