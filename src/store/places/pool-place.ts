import type { RegionSource } from '../../fabrics/shared/region.ts';
import type { SharedFabric } from '../../fabrics/shared/shared-fabric.ts';
import type { PoolParameters } from '../../pool/layout.ts';
import { formatSuperblock, SUPERBLOCK_BYTES } from '../../pool/superblock.ts';
import { Batch, Scratch } from '../../verbs/index.ts';

export interface OpenedPool {
  source: RegionSource;
  fabric: SharedFabric;
  parameters: PoolParameters;
}

/** What names a pool for as long as it is open: a file by device and inode, or its first buffer. */
export type PoolIdentity = string | SharedArrayBuffer;

/** A pool that was found. Exactly one of `open` and `release` is called. */
export interface PoolPlace {
  /** Equal for two places if and only if they are the same pool, as long as one of them is open. */
  identity: PoolIdentity;
  open(): OpenedPool;
  release(): void;
}

/** The first words of a new pool, which nobody else knows yet. */
export function writeSuperblock(fabric: SharedFabric, parameters: PoolParameters): void {
  const image = new Scratch(SUPERBLOCK_BYTES);
  image.u8.set(formatSuperblock(parameters));
  fabric.execute(new Batch().write(0, SUPERBLOCK_BYTES, image, 0));
}
