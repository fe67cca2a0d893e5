import {
  closeSync,
  fstatSync,
  lstatSync,
  openSync,
  readdirSync,
  readlinkSync,
  readSync,
  realpathSync,
  rmSync,
  statSync,
  unlinkSync,
  writeSync,
} from 'node:fs';
import { basename, dirname, isAbsolute, join } from 'node:path';
import { hasCode, StepwellError } from '../../errors.ts';
import { loadLibc } from '../../fabrics/shared/libc.ts';
import { MappedSource } from '../../fabrics/shared/mapped-source.ts';
import { capacityOf } from '../../fabrics/shared/refused-memory.ts';
import { SharedFabric } from '../../fabrics/shared/shared-fabric.ts';
import type { ClientRow } from '../../pool/clients/membership.ts';
import { exists } from '../../pool/clients/process-stat.ts';
import { PoolLayout, type PoolParameters, SUPERBLOCK } from '../../pool/layout.ts';
import { LocalPool } from '../../pool/local-pool.ts';
import {
  hasMagic,
  isMarkedDestroyed,
  parseSuperblock,
  poolParameters,
  SUPERBLOCK_BYTES,
} from '../../pool/superblock.ts';
import type { OpenOptions, PoolOptions } from '../api.ts';
import { unsupported } from '../arguments.ts';
import { asStepwellError, guardIo } from '../io-errors.ts';
import { poolSizes } from '../sizes.ts';
import {
  type FileLocation,
  type OpenedPool,
  type PoolPlace,
  writeSuperblock,
} from './pool-place.ts';

/**
 * Pools take memory as they fill; this bound only keeps a mistake from filling the machine. It is
 * lower if the whole file system is smaller.
 */
const DEFAULT_FILE_BYTES = 8 * 2 ** 30;
/** On systems that write a region when the file grows by it. */
const WRITTEN_REGION_BYTES = 64 * 2 ** 20;
/**
 * A creator needs milliseconds. If it is in another pid namespace, nothing shows whether it lives.
 */
const ABANDONED_AFTER_MS = 60_000;
/** As many as Linux follows. */
const LINKS_MAX = 40;

/** An attempt fails only if another process destroys the pool meanwhile. */
const CREATES_MAX = 5;

/** Repeats if the pool was destroyed between finding and opening it, or is half destroyed. */
export function findOrCreate({ path, url }: FileLocation, options: OpenOptions): PoolPlace {
  if (options.create === false) return filePlace(path, url);
  for (let attempt = 1; ; attempt++) {
    createFile(path, url, options);
    try {
      return filePlace(path, url);
    } catch (error) {
      if (!hasCode(error, 'SW_POOL_NOT_FOUND') || attempt === CREATES_MAX) throw error;
      finishDestroying(path, url);
    }
  }
}

/**
 * Creates a pool file. Raises SW_POOL_EXISTS if there is a pool, or a file that this process may
 * not read; for anything else what opening it raises.
 */
export function createNew({ path, url }: FileLocation, options: PoolOptions): void {
  for (let attempt = 1; !createFile(path, url, options); attempt++) {
    if (attempt === CREATES_MAX || !isFree(path, url)) {
      throw new StepwellError('SW_POOL_EXISTS', `there is a pool at ${url} already`);
    }
  }
}

/** Whether a name that was taken a moment ago is free now; false if a pool has it. */
function isFree(path: string, url: string): boolean {
  try {
    if (finishDestroying(path, url)) return true;
    filePlace(path, url).release();
    return false;
  } catch (error) {
    if (!hasCode(error, 'SW_PERMISSION_DENIED')) throw error;
    const text = `there is a file at ${url} already, which this process may not open`;
    throw new StepwellError('SW_POOL_EXISTS', `${text}; choose another name`, { cause: error });
  }
}

/**
 * Creates a pool file; false if the name is taken. Completes the file under another name and
 * publishes it, so that no client attaches to half a pool, and of two creators one wins.
 */
export function createFile(named: string, url: string, options: PoolOptions): boolean {
  const path = guardIo(url, named, () => linkTarget(named), 'create');
  const lookUp = () => lstatSync(path, { throwIfNoEntry: false });
  if (guardIo(url, path, lookUp, 'create') !== undefined) return false;
  removeAbandoned(path, url);
  const parameters = poolParameters(poolSizes(options), defaultsFor(path));
  const draft = draftOf(path);
  const fd = guardIo(url, path, () => openSync(draft, 'wx+', 0o600), 'create');
  try {
    const source = new MappedSource(draft, fd, parameters.regionBytes);
    try {
      source.begin();
      // All tables, because on a full file system the first touch of a page would be a bus error.
      source.reserve(0, 0, tableBytes(parameters));
      writeSuperblock(new SharedFabric(source), parameters);
    } finally {
      source.close();
    }
    return loadLibc().publish(draft, path);
  } catch (error) {
    throw asStepwellError(url, path, error, 'create');
  } finally {
    rmSync(draft, { force: true });
  }
}

/** A name for the file until it is complete and gets this path; see `removeAbandoned`. */
export function draftOf(path: string): string {
  return `${path}.${process.pid}.${Math.floor(Math.random() * 2 ** 32)}.new`;
}

/**
 * Where a symbolic link leads; `destroy` removes the file and leaves the link. Joins paths without
 * normalising them: only the system knows what `..` means behind a link to a directory.
 */
export function linkTarget(path: string): string {
  let at = path;
  for (let links = 0; links < LINKS_MAX; links++) {
    if (!lstatSync(at, { throwIfNoEntry: false })?.isSymbolicLink()) return at;
    const target = readlinkSync(at);
    at = isAbsolute(target) ? target : `${dirname(at)}/${target}`;
  }
  // The links form a circle: opening the path will fail.
  return at;
}

/** Counts the whole file system, not only what is free now: other files may shrink. */
function defaultsFor(path: string): { size: number; regionSize?: number } {
  const total = capacityOf(dirname(path))?.total ?? DEFAULT_FILE_BYTES;
  const size = Math.min(DEFAULT_FILE_BYTES, total);
  return process.platform === 'linux' ? { size } : { size, regionSize: WRITTEN_REGION_BYTES };
}

/** Whole pages up to the end of the chunk table. */
function tableBytes(parameters: PoolParameters): number {
  const layout = new PoolLayout(parameters);
  const last = layout.chunkWord(layout.chunksMax - 1);
  return Math.ceil((last + 8) / 4096) * 4096;
}

/** Removes drafts that killed creators have left. */
export function removeAbandoned(path: string, url: string): void {
  const prefix = `${basename(path)}.`;
  for (const name of guardIo(url, path, () => readdirSync(dirname(path)), 'create')) {
    if (!name.startsWith(prefix) || !name.endsWith('.new')) continue;
    const pid = Number(name.slice(prefix.length).split('.')[0]);
    const draft = join(dirname(path), name);
    const age = Date.now() - (statSync(draft, { throwIfNoEntry: false })?.mtimeMs ?? Date.now());
    if (age > ABANDONED_AFTER_MS && !exists(pid)) rmSync(draft, { force: true });
  }
}

/** Attaches to a pool file. Raises SW_POOL_NOT_FOUND and what `parseSuperblock` raises. */
export function attachFile(path: string, url: string): OpenedPool {
  return filePlace(path, url).open();
}

/**
 * A pool file, open but not mapped. Its identity is that of the file, however the URL spells it: no
 * other file gets the inode number of an open one. The pool's own number shows if another pool was
 * written into the file.
 */
export function filePlace(path: string, url: string): PoolPlace {
  const fd = guardIo(url, path, () => openSync(path, 'r+'));
  try {
    const head = new Uint8Array(SUPERBLOCK_BYTES);
    const bytes = guardIo(url, path, () => readSync(fd, head, 0, SUPERBLOCK_BYTES, 0));
    if (isMarkedDestroyed(head)) {
      // Its destroyer died before it removed the file.
      const why = 'the one that was there was destroyed; stepwell destroy takes away what is left';
      throw new StepwellError('SW_POOL_NOT_FOUND', `no pool at ${url}: ${why}`);
    }
    const { dev, ino, size } = fstatSync(fd, { bigint: true });
    const parameters = parseSuperblock(head.subarray(0, bytes), Number(size), url);
    if (parameters.nodes !== undefined) {
      const why = `holds a part of a pool over ${parameters.nodes} memory nodes`;
      throw unsupported(`${url} ${why}; open it as tcp://…`);
    }
    return {
      identity: `${dev} ${ino} ${parameters.poolId}`,
      open: () => mapFile(path, url, fd, parameters),
      release: () => closeSync(fd),
    };
  } catch (error) {
    closeSync(fd);
    throw error;
  }
}

function mapFile(path: string, url: string, fd: number, parameters: PoolParameters): OpenedPool {
  try {
    const reopen = () => guardIo(url, path, () => openSync(path, 'r+'));
    const source = new MappedSource(path, fd, parameters.regionBytes, reopen);
    return { source, fabric: new SharedFabric(source), parameters };
  } catch (error) {
    closeSync(fd);
    throw error;
  }
}

/**
 * Takes a pool's file away. Clients that still have it open are told by a mark in the superblock,
 * which they read at every quiescent point. The mark is written before the file's name goes:
 *
 * - A destroyer that dies in between leaves a marked file, which no client opens any more. The next
 *   process that wants to make a pool there takes the file away first.
 * - The file is locked meanwhile, and its name is looked up again under the lock. So of two
 *   destroyers the late one does not take away the pool that was made after the first.
 *
 * Raises SW_POOL_BUSY while a living client is attached, unless forced, and while a memory node
 * lends the file; SW_POOL_FOREIGN for what never was a pool.
 */
export function destroyFile(path: string, url: string, force: boolean): void {
  const fd = guardIo(url, path, () => openSync(path, 'r+'));
  try {
    const head = headOf(fd, path, url);
    // A damaged pool may be removed by force, a file that never was one may not.
    if (!hasMagic(head))
      throw new StepwellError('SW_POOL_FOREIGN', `${url} is not a Stepwell pool`);
    if (!force && !isMarkedDestroyed(head)) refuseWhileBusy(path, url);
    lock(fd, path, url);
    markAndUnlink(fd, path, url);
  } finally {
    closeSync(fd);
  }
}

/**
 * Completes what a destroyer began before it died. Returns whether the name is free now; false if a
 * file has it that no client was destroying.
 */
export function finishDestroying(path: string, url: string): boolean {
  try {
    return finish(path, url);
  } catch (error) {
    if (hasCode(error, 'SW_POOL_NOT_FOUND')) return true;
    throw error;
  }
}

function finish(path: string, url: string): boolean {
  const fd = guardIo(url, path, () => openSync(path, 'r+'));
  try {
    // Without the lock at first: a memory node may hold it for a file that is in use.
    if (!isMarkedDestroyed(headOf(fd, path, url))) return false;
    lock(fd, path, url);
    // Its destroyer may still have lived, failed and removed the mark.
    if (!isMarkedDestroyed(headOf(fd, path, url))) return false;
    unlink(path, url);
    return true;
  } finally {
    closeSync(fd);
  }
}

function headOf(fd: number, path: string, url: string): Uint8Array {
  const head = new Uint8Array(SUPERBLOCK_BYTES);
  guardIo(url, path, () => readSync(fd, head, 0, SUPERBLOCK_BYTES, 0));
  return head;
}

/** Takes the lock, then looks up the name again. */
function lock(fd: number, path: string, url: string): void {
  if (!loadLibc().lock(fd)) {
    const why = 'a memory node lends it, or another process destroys it';
    throw new StepwellError('SW_POOL_BUSY', `${url} is in use: ${why}`);
  }
  const { dev, ino } = fstatSync(fd, { bigint: true });
  const now = guardIo(url, path, () => statSync(path, { bigint: true, throwIfNoEntry: false }));
  if (now?.dev !== dev || now.ino !== ino) {
    throw new StepwellError('SW_POOL_NOT_FOUND', `no pool at ${url}: another process destroyed it`);
  }
}

/**
 * The system may refuse the second step: in a directory of another user, in a sticky one such as
 * /dev/shm, or for a file that is a mount. Then this removes the mark, and the pool is as before. A
 * client that has seen the mark meanwhile raises SW_POOL_DESTROYED and can open the pool again. A
 * mark that a dead destroyer left remains.
 */
function markAndUnlink(fd: number, path: string, url: string): void {
  const isMarked = isMarkedDestroyed(headOf(fd, path, url));
  mark(fd, path, url, 1);
  try {
    unlink(path, url);
  } catch (error) {
    if (!isMarked) mark(fd, path, url, 0);
    throw error;
  }
}

function mark(fd: number, path: string, url: string, value: 0 | 1): void {
  // Does not lengthen a file that was cut off.
  if (fstatSync(fd).size < SUPERBLOCK_BYTES) return;
  guardIo(url, path, () => writeSync(fd, Uint8Array.of(value), 0, 1, SUPERBLOCK.destroyed));
}

/** Removes the file; a link to it stays. */
function unlink(path: string, url: string): void {
  const file = guardIo(url, path, () => realpathSync(path));
  guardIo(url, file, () => unlinkSync(file), 'remove');
}

function refuseWhileBusy(path: string, url: string): void {
  const { fabric, source, parameters } = attachFile(path, url);
  try {
    const pool = new LocalPool(fabric, parameters, source);
    const rows = pool.run(pool.membership.rows());
    const living = pool.run(pool.membership.living(rows));
    if (living.length === 0) return;
    const why = `in use by ${namesOf(living).join(', ')}; end these, or use force (--force)`;
    throw new StepwellError('SW_POOL_BUSY', `${url} is ${why}`);
  } finally {
    source.close();
  }
}

/** Clients as a message names them. */
export function namesOf(rows: readonly ClientRow[]): string[] {
  return [...new Set(rows.map(({ name, thread }) => `process ${thread.pid} (${name})`))];
}
