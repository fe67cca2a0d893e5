import { join, resolve } from 'node:path';
import { StepwellError } from '../../errors.ts';

export const SHARED_MEMORY_DIRECTORY = '/dev/shm';
export const SHARED_MEMORY_PREFIX = 'stepwell-';

/** Where a pool is, as a URL says. */
export type Location = { kind: 'memory' } | FileLocation;

export interface FileLocation {
  kind: 'file';
  path: string;
  url: string;
}

/** Raises SW_INVALID_URL, and SW_UNSUPPORTED of a place that this system has not. */
export function parseUrl(url: unknown): Location {
  if (typeof url !== 'string') {
    throw new StepwellError('SW_INVALID_URL', `a pool URL is a string, not ${typeof url}`);
  }
  if (url === 'memory:') return { kind: 'memory' };
  const [, scheme, rest] = /^([a-z]+):(.*)$/s.exec(url) ?? [];
  if (scheme === 'shm' && /^[A-Za-z0-9._-]{1,128}$/.test(rest)) {
    if (process.platform !== 'linux') {
      throw new StepwellError('SW_UNSUPPORTED', 'shm: pools need Linux; use file: or memory:');
    }
    return { kind: 'file', path: join(SHARED_MEMORY_DIRECTORY, SHARED_MEMORY_PREFIX + rest), url };
  }
  if (scheme === 'file' && rest.length > 0 && !rest.includes('\0')) {
    // file:///a/b is the same as file:/a/b
    return { kind: 'file', path: resolve(rest.replace(/^\/\/(?=\/)/, '')), url };
  }
  if (scheme === 'tcp' || scheme === 'tls' || scheme === 'ucx') {
    throw new StepwellError('SW_UNSUPPORTED', `${url} is over a network: only open reaches it`);
  }
  throw new StepwellError(
    'SW_INVALID_URL',
    `not a pool URL: ${JSON.stringify(url)} (use shm:NAME, file:PATH, tcp://HOST:PORT or memory:)`,
  );
}
