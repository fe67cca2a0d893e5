import { hasCode, StepwellError } from '../../errors.ts';
import type { OpenOptions, PoolOptions } from '../api.ts';
import { finishDestroying } from './destroy-file.ts';
import { createFile, filePlace } from './pool-files.ts';
import type { PoolPlace } from './pool-place.ts';
import type { FileLocation } from './pool-url.ts';

/** Each further one means that another process has destroyed the pool in between. */
const CREATES_MAX = 5;

/** A pool may be destroyed between the two steps, or its destroyer have died between its own. */
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
 * Creates a pool file. Raises SW_POOL_EXISTS when there is a pool, or a file that this process may
 * not read; what opening raises where there is something else.
 */
export function createNew({ path, url }: FileLocation, options: PoolOptions): void {
  for (let attempt = 1; !createFile(path, url, options); attempt++) {
    if (attempt === CREATES_MAX || !isFree(path, url)) {
      throw new StepwellError('SW_POOL_EXISTS', `there is a pool at ${url} already`);
    }
  }
}

/** Whether a name is free now that something had a moment ago; false for a pool. */
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
