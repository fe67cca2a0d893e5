import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Prng } from '../../../random/prng.ts';
import type { OpenOptions, Store, Value } from '../../api.ts';
import { destroySync, openAloneSync, openSync } from '../../open.ts';
import { sharedMemoryDirectory } from '../../places/pool-place.ts';
import { replace } from './replace.ts';

/** The part of node:test's context that is used: `after` runs also when the test failed. */
export interface Scope {
  after(action: () => void | Promise<void>): void;
}

export const POOL_KINDS = ['memory', 'shm', 'file'] as const;
export type PoolKind = (typeof POOL_KINDS)[number];

const counter = new Uint32Array(1);

/** Small, so that a test never fills the machine; memory is taken only as it is used. */
export const SMALL: OpenOptions & { size: number } = {
  size: 16 * 2 ** 20,
  maxClients: 16,
  client: 'test',
};

export function temporaryDirectory(scope: Scope): string {
  const directory = mkdtempSync(join(tmpdir(), 'stepwell-test-'));
  removeAfter(scope, () => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

/** Windows removes no file that is mapped, and cleanups run in the order of their registration. */
function removeAfter(scope: Scope, remove: () => void): void {
  scope.after(() => (process.platform === 'win32' ? void setTimeout(remove, 1000) : remove()));
}

/** The URL of a pool that does not exist yet and is gone after the test. */
export function freshUrl(scope: Scope, kind: PoolKind): string {
  if (kind === 'memory') return 'memory:';
  if (kind === 'file') return `file:${join(temporaryDirectory(scope), 'pool')}`;
  const name = `test-${process.pid}-${++counter[0]}-${Date.now()}`;
  removeAfter(scope, () => {
    if (existsSync(pathOf(`shm:${name}`))) destroySync(`shm:${name}`, { force: true });
  });
  return `shm:${name}`;
}

/** A store in a pool of its own. */
export function freshStore(
  scope: Scope,
  kind: PoolKind = 'memory',
  options: OpenOptions = {},
): Store<Value> {
  return keepOpen(scope, openSync(freshUrl(scope, kind), { ...SMALL, ...options }));
}

/** Another client of the same pool. */
export function attachTo(scope: Scope, store: Store, options: OpenOptions = {}): Store<Value> {
  const wanted = { store: store.name, client: 'test', ...options };
  return keepOpen(scope, openAloneSync(store.handle, wanted));
}

export function keepOpen<S extends { close(): void }>(scope: Scope, store: S): S {
  endAfter(scope, store, (open) => open.close());
  return store;
}

/**
 * Ends something after the test, and drops the reference to it. The runner keeps every cleanup
 * until its process ends. If cleanups kept their stores, all pools would stay mapped, and a process
 * that maps more than the machine has may not fork (ENOMEM).
 */
export function endAfter<T extends object>(
  scope: Scope,
  thing: T,
  end: (thing: T) => void | Promise<void>,
): void {
  let kept: T | undefined = thing;
  scope.after(() => {
    const ending = kept as T;
    kept = undefined;
    return end(ending);
  });
}

export function pathOf(url: string): string {
  const [, scheme, rest] = /^([a-z]+):(.*)$/s.exec(url) ?? [];
  return scheme === 'shm' ? join(sharedMemoryDirectory(), `stepwell-${rest}`) : rest;
}

/**
 * Hashes and versions are the same in each run of the test. How much a small pool holds depends on
 * them: in which chunks the last records lie decides whether one comes free for another size.
 */
export function fixChances(scope: Scope, seed = 1): void {
  const prng = Prng.fromSeed(seed);
  scope.after(replace(Math, 'random', () => prng.nextDouble()));
}

/** Bytes that differ from position to position and from seed to seed. */
export function patternBytes(length: number, seed = 1): Uint8Array {
  const words = new Uint32Array(Math.ceil(length / 4));
  let x = (seed * 2654435761) >>> 0 || 1;
  for (let i = 0; i < words.length; i++) {
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
    words[i] = x;
  }
  return new Uint8Array(words.buffer, 0, length);
}

export function numbered(prefix: string, count: number): string[] {
  return Array.from({ length: count }, (_, i) => `${prefix}${i}`);
}
