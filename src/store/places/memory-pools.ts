import { StepwellError } from '../../errors.ts';
import { MemorySource } from '../../fabrics/shared/memory-source.ts';
import { SharedFabric } from '../../fabrics/shared/shared-fabric.ts';
import {
  type PoolSizing,
  parseSuperblock,
  poolParameters,
  SUPERBLOCK_BYTES,
} from '../../pool/superblock.ts';
import type { PoolOptions } from '../api.ts';
import {
  type HandleObject,
  type OpenedPool,
  type PoolPlace,
  writeSuperblock,
} from './pool-place.ts';

const DEFAULT_MEMORY_BYTES = 2 ** 30;

/** A new `memory:` pool. */
export function createInMemory(
  options: PoolOptions & PoolSizing,
): OpenedPool & { handle: HandleObject } {
  const parameters = poolParameters(options, { size: DEFAULT_MEMORY_BYTES });
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
