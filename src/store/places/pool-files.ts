import {
  closeSync,
  fstatSync,
  linkSync,
  lstatSync,
  openSync,
  readdirSync,
  readlinkSync,
  readSync,
  rmSync,
  statSync,
} from 'node:fs';
import { basename, dirname, isAbsolute, join } from 'node:path';
import { StepwellError } from '../../errors.ts';
import { MappedSource } from '../../fabrics/shared/mapped-source.ts';
import { capacityOf } from '../../fabrics/shared/refused-memory.ts';
import { SharedFabric } from '../../fabrics/shared/shared-fabric.ts';
import { exists } from '../../pool/clients/process-stat.ts';
import { PoolLayout, type PoolParameters } from '../../pool/layout.ts';
import {
  isMarkedDestroyed,
  parseSuperblock,
  poolParameters,
  SUPERBLOCK_BYTES,
} from '../../pool/superblock.ts';
import type { PoolOptions } from '../api.ts';
import { asStepwellError, guardIo } from '../io-errors.ts';
import { type OpenedPool, type PoolPlace, writeSuperblock } from './pool-place.ts';

/**
 * Pools take memory as they fill; these bounds only keep a mistake from filling the machine. That
 * of a file is lower where the whole file system is smaller.
 */
const DEFAULT_FILE_BYTES = 8 * 2 ** 30;
/** Where a region is written when the file gets it. */
const WRITTEN_REGION_BYTES = 64 * 2 ** 20;
/** A creator needs milliseconds; one in another pid namespace cannot be asked whether it lives. */
const ABANDONED_AFTER_MS = 60_000;
/** As many as Linux follows. */
const LINKS_MAX = 40;

/**
 * Creates a pool file; false when something has its name. The file is made complete under another
 * name and then linked, so that no client ever attaches to half a pool, and of two creators one
 * wins.
 */
export function createFile(named: string, url: string, options: PoolOptions): boolean {
  const path = guardIo(url, named, () => linkTarget(named), 'create');
  const lookUp = () => lstatSync(path, { throwIfNoEntry: false });
  if (guardIo(url, path, lookUp, 'create') !== undefined) return false;
  removeAbandoned(path, url);
  const parameters = poolParameters(options, defaultsFor(path));
  const draft = draftOf(path);
  const fd = guardIo(url, path, () => openSync(draft, 'wx+', 0o600), 'create');
  try {
    const source = new MappedSource(draft, fd, parameters.regionBytes);
    try {
      source.begin();
      // Every table, or a full file system would be a bus error at the first touch of a page.
      source.reserve(0, 0, tableBytes(parameters));
      writeSuperblock(new SharedFabric(source), parameters);
    } finally {
      source.close();
    }
    linkSync(draft, path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw asStepwellError(url, path, error, 'create');
  } finally {
    rmSync(draft, { force: true });
  }
}

/** A name for a file that gets this path when it is complete; see `removeAbandoned`. */
export function draftOf(path: string): string {
  return `${path}.${process.pid}.${Math.floor(Math.random() * 2 ** 32)}.new`;
}

/**
 * Where a symbolic link leads; `destroy` takes away the file and leaves the link. Parts are joined
 * as they stand: only the system can say what `..` means behind a link to a directory.
 */
export function linkTarget(path: string): string {
  let at = path;
  for (let links = 0; links < LINKS_MAX; links++) {
    if (!lstatSync(at, { throwIfNoEntry: false })?.isSymbolicLink()) return at;
    const target = readlinkSync(at);
    at = isAbsolute(target) ? target : `${dirname(at)}/${target}`;
  }
  // In circles: opening it tells.
  return at;
}

/** All of the file system, not what is available now: others may give back what they have. */
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

/** Drafts that a creator left when it was killed. */
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
 * other file gets the number of one that is open. The pool's own number is for a file in which
 * another pool was written.
 */
export function filePlace(path: string, url: string): PoolPlace {
  const fd = guardIo(url, path, () => openSync(path, 'r+'));
  try {
    const head = new Uint8Array(SUPERBLOCK_BYTES);
    const bytes = guardIo(url, path, () => readSync(fd, head, 0, SUPERBLOCK_BYTES, 0));
    if (isMarkedDestroyed(head)) throw destroyed(url);
    const { dev, ino, size } = fstatSync(fd, { bigint: true });
    const parameters = parseSuperblock(head.subarray(0, bytes), Number(size), url);
    if (parameters.nodes !== undefined) {
      const why = `holds a part of a pool over ${parameters.nodes} memory nodes`;
      throw new StepwellError('SW_UNSUPPORTED', `${url} ${why}; open it as tcp://…`);
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

/** Its destroyer has died before it took the file away. */
function destroyed(url: string): StepwellError {
  const why = 'the one that was there was destroyed; stepwell destroy takes away what is left';
  return new StepwellError('SW_POOL_NOT_FOUND', `no pool at ${url}: ${why}`);
}
