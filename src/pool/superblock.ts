import { StepwellError } from '../errors.ts';
import {
  CHUNK_BYTES,
  CLIENTS_MAX,
  isRegionCount,
  LAYOUT_VERSION,
  MAGIC,
  PARAMETER_BYTES,
  PoolLayout,
  type PoolParameters,
  REGIONS_MAX,
  SUPERBLOCK,
} from './layout.ts';

/** Bytes at the start of region 0 that identify a pool and hold its parameters. */
export const SUPERBLOCK_BYTES = 4096;

const REGION_BYTES_MAX = 2 ** 31;
/** Smaller if regions of this size would leave a part of the pool's size unused. */
const DEFAULT_REGION_BYTES = 2 ** 30;
const DEFAULT_CLIENTS = 128;

/** One word holds `regionsMax` and, times this factor, the number of nodes beyond the first. */
const NODES_SCALE = 2 ** 32;

export interface PoolSizing {
  size?: number;
  regionSize?: number;
  maxClients?: number;
  /** Memory nodes over which the regions are striped; on one machine only in tests. */
  nodes?: number;
}

/** Checks the requested sizes and turns them into the parameters of a pool. */
export function poolParameters(
  { size, regionSize, maxClients, nodes = 1 }: PoolSizing,
  defaults: { size: number; regionSize?: number },
): PoolParameters {
  const wanted = positiveInteger('size', size ?? defaults.size);
  const clientsMax = positiveInteger('maxClients', maxClients ?? DEFAULT_CLIENTS, CLIENTS_MAX);
  const even = evenRegions(wanted, defaults.regionSize ?? DEFAULT_REGION_BYTES, nodes);
  const region = positiveInteger('regionSize', regionSize ?? even, REGION_BYTES_MAX);
  const regionBytes = Math.floor(Math.min(region, wanted) / CHUNK_BYTES) * CHUNK_BYTES;
  const regionsMax = regionBytes === 0 ? 0 : Math.floor(wanted / regionBytes / nodes) * nodes;
  if (regionsMax === 0) {
    throw new StepwellError('SW_POOL_TOO_SMALL', `a pool of ${wanted} bytes is too small`);
  }
  if (regionsMax > REGIONS_MAX) throw invalid(`a pool has at most ${REGIONS_MAX} regions`);
  const parameters = {
    regionBytes,
    regionsMax,
    clientsMax,
    createdAt: Date.now(),
    poolId: Math.floor(Math.random() * 2 ** 52),
    ...(nodes > 1 ? { nodes } : {}),
  };
  new PoolLayout(parameters); // raises SW_POOL_TOO_SMALL when the tables do not fit
  return parameters;
}

/** The size of a region if the fewest possible regions share `size` evenly. */
function evenRegions(size: number, most: number, nodes: number): number {
  return Math.floor(size / (Math.ceil(size / most / nodes) * nodes));
}

/** Regions that a pool of `size` bytes needs. Raises SW_INVALID_ARGUMENT. */
export function regionsForSize(size: number, { regionBytes, nodes = 1 }: PoolParameters): number {
  const regions = Math.ceil(positiveInteger('size', size) / regionBytes / nodes) * nodes;
  if (isRegionCount(regions, nodes)) return regions;
  const remedy = 'stepwell copy makes a larger pool with larger regions';
  throw invalid(
    `a pool has at most ${REGIONS_MAX} regions, here of ${regionBytes} bytes: ${remedy}`,
  );
}

/** The superblock of an empty pool with one region. */
export function formatSuperblock(parameters: PoolParameters): Uint8Array {
  const bytes = new Uint8Array(SUPERBLOCK_BYTES);
  const view = new DataView(bytes.buffer);
  const put = (offset: number, value: number | bigint) =>
    view.setBigUint64(offset, BigInt(value), true);
  put(SUPERBLOCK.magic, MAGIC);
  put(SUPERBLOCK.regionBytes, parameters.regionBytes);
  const nodes = parameters.nodes ?? 1;
  put(SUPERBLOCK.regionsMax, parameters.regionsMax + (nodes - 1) * NODES_SCALE);
  put(SUPERBLOCK.clientsMax, parameters.clientsMax);
  put(SUPERBLOCK.chunkBytes, CHUNK_BYTES);
  put(SUPERBLOCK.createdAt, parameters.createdAt);
  put(SUPERBLOCK.poolId, parameters.poolId);
  put(SUPERBLOCK.regionCount, nodes);
  put(SUPERBLOCK.frontier, new PoolLayout(parameters).reservedChunks);
  put(SUPERBLOCK.epoch, 1);
  view.setUint32(SUPERBLOCK.versionAndChecksum, LAYOUT_VERSION, true);
  view.setUint32(SUPERBLOCK.versionAndChecksum + 4, checksum(bytes), true);
  return bytes;
}

/**
 * Reads a superblock that another process wrote and trusts nothing in it.
 * Raises SW_POOL_FOREIGN, SW_POOL_VERSION, SW_POOL_CORRUPT or SW_POOL_TRUNCATED.
 */
export function parseSuperblock(
  bytes: Uint8Array,
  memoryBytes: number,
  url: string,
): PoolParameters {
  const fail = (
    code: 'SW_POOL_FOREIGN' | 'SW_POOL_VERSION' | 'SW_POOL_CORRUPT' | 'SW_POOL_TRUNCATED',
    why: string,
  ) => new StepwellError(code, `${url} ${why}`);
  if (bytes.length < 16) throw fail('SW_POOL_FOREIGN', 'is not a Stepwell pool');
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  if (!hasMagic(bytes)) throw fail('SW_POOL_FOREIGN', 'is not a Stepwell pool');
  if (bytes.length < SUPERBLOCK_BYTES) throw fail('SW_POOL_TRUNCATED', 'ends in its superblock');
  const version = view.getUint32(SUPERBLOCK.versionAndChecksum, true);
  if (version !== LAYOUT_VERSION) {
    throw fail(
      'SW_POOL_VERSION',
      `has layout version ${version}, but this Stepwell uses ${LAYOUT_VERSION}: write its ` +
        'records to a file with `stepwell dump` of the version that made it, and read that file ' +
        'with `stepwell load` of this one',
    );
  }
  if (view.getUint32(SUPERBLOCK.versionAndChecksum + 4, true) !== checksum(bytes)) {
    throw fail('SW_POOL_CORRUPT', 'has a superblock that does not match its checksum');
  }
  const get = (offset: number) => Number(view.getBigUint64(offset, true));
  const nodes = Math.floor(get(SUPERBLOCK.regionsMax) / NODES_SCALE) + 1;
  const raised = get(SUPERBLOCK.regionsRaised);
  const parameters = {
    regionBytes: get(SUPERBLOCK.regionBytes),
    regionsMax: get(SUPERBLOCK.regionsMax) % NODES_SCALE,
    ...(raised > 0 ? { regionsRaised: raised } : {}),
    clientsMax: get(SUPERBLOCK.clientsMax),
    createdAt: get(SUPERBLOCK.createdAt),
    poolId: get(SUPERBLOCK.poolId),
    ...(nodes > 1 ? { nodes } : {}),
  };
  const regions = get(SUPERBLOCK.regionCount);
  if (parameters.regionsMax % nodes !== 0) {
    throw fail('SW_POOL_CORRUPT', 'has regions that cannot be dealt out to its memory nodes');
  }
  const { regionsMax, regionsRaised: regionsNow = regionsMax } = parameters;
  const isSound = regionsNow >= regionsMax && isRegionCount(regionsNow, nodes);
  if (
    !isSound ||
    regions < 1 ||
    regions > regionsNow ||
    get(SUPERBLOCK.chunkBytes) !== CHUNK_BYTES
  ) {
    throw fail('SW_POOL_CORRUPT', 'has a superblock that contradicts itself');
  }
  if (memoryBytes < regions * parameters.regionBytes) {
    const expected = regions * parameters.regionBytes;
    throw fail('SW_POOL_TRUNCATED', `has ${memoryBytes} bytes where ${expected} are expected`);
  }
  return parameters;
}

/** Whether a pool is marked as destroyed; its file may still exist. */
export function isMarkedDestroyed(head: Uint8Array): boolean {
  return head.length > SUPERBLOCK.destroyed && head[SUPERBLOCK.destroyed] !== 0 && hasMagic(head);
}

export function hasMagic(head: Uint8Array): boolean {
  if (head.length < 8) return false;
  return new DataView(head.buffer, head.byteOffset).getBigUint64(SUPERBLOCK.magic, true) === MAGIC;
}

/** 32-bit FNV-1a over the creation parameters, without the checksum itself. */
function checksum(bytes: Uint8Array): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < PARAMETER_BYTES; i++) {
    const counted = i >= SUPERBLOCK.versionAndChecksum + 4 && i < SUPERBLOCK.regionBytes;
    hash = Math.imul(hash ^ (counted ? 0 : bytes[i]), 0x01000193);
  }
  return hash >>> 0;
}

function positiveInteger(name: string, value: number, most = Number.MAX_SAFE_INTEGER): number {
  const isPositive = Number.isSafeInteger(value) && value > 0;
  if (isPositive && value <= most) return value;
  throw invalid(
    `${name} must be ${isPositive ? `at most ${most}` : 'a positive integer'}: ${value}`,
  );
}

function invalid(message: string): StepwellError {
  return new StepwellError('SW_INVALID_ARGUMENT', message);
}
