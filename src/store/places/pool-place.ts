import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { StepwellError } from '../../errors.ts';
import { MemorySource } from '../../fabrics/shared/memory-source.ts';
import type { RegionSource } from '../../fabrics/shared/region.ts';
import { SharedFabric } from '../../fabrics/shared/shared-fabric.ts';
import type { PoolParameters } from '../../pool/layout.ts';
import {
  formatSuperblock,
  type PoolSizing,
  parseSuperblock,
  poolParameters,
  SUPERBLOCK_BYTES,
} from '../../pool/superblock.ts';
import { Batch, Scratch } from '../../verbs/index.ts';
import type { OpenOptions, PoolHandle, PoolOptions } from '../api.ts';
import { unsupported } from '../arguments.ts';
import { poolSizes } from '../sizes.ts';

type Place = string | PoolHandle;

/** A handle that a store returns. */
export type HandleObject = Exclude<PoolHandle, string>;

/** The pool alone: the buffers of a `memory:` pool, else what should be a URL. */
export function poolOf(place: Place): readonly SharedArrayBuffer[] | string {
  if (typeof place !== 'object' || place === null) return place;
  return 'memory' in place ? place.memory : place.url;
}

/**
 * The options, with the store of the handle unless they name another one. That store did exist: an
 * empty one in its place, perhaps of another index, would hide that it was dropped.
 */
export function optionsFor(place: Place, options: OpenOptions): OpenOptions {
  const store = typeof place === 'object' && place !== null ? place.store : undefined;
  if (store === undefined || options.store !== undefined) return options;
  return { ...options, store, create: options.create ?? false };
}

/** Only Linux has a directory of files that are memory alone. */
export function sharedMemoryDirectory(): string {
  return process.platform === 'linux' ? '/dev/shm' : tmpdir();
}
export const SHARED_MEMORY_PREFIX = 'stepwell-';

/** Where a pool is, by its URL. */
export type Location = { kind: 'memory' } | FileLocation;

export interface FileLocation {
  kind: 'file';
  path: string;
  url: string;
}

/** Raises SW_INVALID_URL, and SW_UNSUPPORTED for a pool over a network. */
export function parseUrl(url: unknown): Location {
  if (typeof url !== 'string') {
    throw new StepwellError('SW_INVALID_URL', `a pool URL is a string, not ${typeof url}`);
  }
  if (url === 'memory:') return { kind: 'memory' };
  const [, scheme, rest] = /^([a-z]+):(.*)$/s.exec(url) ?? [];
  if (scheme === 'shm' && /^[A-Za-z0-9._-]{1,128}$/.test(rest)) {
    return { kind: 'file', path: join(sharedMemoryDirectory(), SHARED_MEMORY_PREFIX + rest), url };
  }
  if (scheme === 'file' && rest.length > 0 && !rest.includes('\0')) {
    return { kind: 'file', path: resolve(pathIn(rest)), url };
  }
  if (scheme === 'tcp' || scheme === 'tls' || scheme === 'ucx') {
    throw unsupported(`${url} is over a network: only open reaches it`);
  }
  throw new StepwellError(
    'SW_INVALID_URL',
    `not a pool URL: ${JSON.stringify(url)} (use shm:NAME, file:PATH, tcp://HOST:PORT or memory:)`,
  );
}

/** file:///a/b is the same as file:/a/b, and on Windows file:///C:/a the same as file:C:/a. */
function pathIn(rest: string): string {
  const path = rest.replace(/^\/\/(?=\/)/, '');
  return process.platform === 'win32' ? path.replace(/^\/(?=[A-Za-z]:)/, '') : path;
}

export interface OpenedPool {
  source: RegionSource;
  fabric: SharedFabric;
  parameters: PoolParameters;
}

/** Identifies a pool while it is open: a file by device and inode, or its first buffer. */
export type PoolIdentity = string | SharedArrayBuffer;

/** A pool that was found. Exactly one of `open` and `release` is called. */
export interface PoolPlace {
  /** Equal for two places if and only if they are the same pool, as long as one of them is open. */
  identity: PoolIdentity;
  open(): OpenedPool;
  release(): void;
}

/** Writes the first words of a new pool, which no other client knows yet. */
export function writeSuperblock(fabric: SharedFabric, parameters: PoolParameters): void {
  const image = new Scratch(SUPERBLOCK_BYTES);
  image.u8.set(formatSuperblock(parameters));
  fabric.execute(new Batch().write(0, SUPERBLOCK_BYTES, image, 0));
}

const DEFAULT_MEMORY_BYTES = 2 ** 30;

/** A new `memory:` pool. */
export function createInMemory(
  options: PoolOptions & Pick<PoolSizing, 'nodes'>,
): OpenedPool & { handle: HandleObject } {
  const parameters = poolParameters(poolSizes(options), { size: DEFAULT_MEMORY_BYTES });
  const source = MemorySource.allocate(parameters.regionsMax, parameters.regionBytes);
  const fabric = new SharedFabric(source);
  writeSuperblock(fabric, parameters);
  return { source, fabric, parameters, handle: { memory: source.buffers } };
}

/** A new `memory:` pool, with the handle by which other threads attach to it. */
export function newMemoryPlace(options: PoolOptions): { place: PoolPlace; handle: HandleObject } {
  const { handle, ...opened } = createInMemory(options);
  const [identity] = (opened.source as MemorySource).buffers;
  return { place: { identity, open: () => opened, release() {} }, handle };
}

/**
 * A `memory:` pool, given its buffers. The same memory received in two messages is two objects, and
 * so gets two clients. Nothing shows that they are the same pool, which does no harm.
 */
export function memoryPlace(buffers: readonly SharedArrayBuffer[]): PoolPlace {
  const open = () => attachInMemory(buffers);
  return { identity: buffers[0], open, release() {} };
}

/** A `memory:` pool that another thread created. */
export function attachInMemory(buffers: readonly SharedArrayBuffer[]): OpenedPool {
  const valid = buffers.length > 0 && buffers.every((b) => b instanceof SharedArrayBuffer);
  if (!valid) throw new StepwellError('SW_INVALID_URL', 'the handle holds no shared buffers');
  const bytes = buffers.reduce((sum, buffer) => sum + buffer.byteLength, 0);
  const head = new Uint8Array(buffers[0]).slice(0, SUPERBLOCK_BYTES);
  const parameters = parseSuperblock(head, bytes, 'the memory pool');
  const source = new MemorySource(buffers);
  return { source, fabric: new SharedFabric(source), parameters };
}
