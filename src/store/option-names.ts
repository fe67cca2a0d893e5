import type { OpenOptions } from './api.ts';
import { checkFlag, checkFunction, checkOptions } from './calls/arguments.ts';
import type { CheckOptions } from './reports.ts';

/** A list in which the compiler finds what is missing. */
const OPEN: Readonly<Record<keyof OpenOptions, true>> = {
  size: true,
  regionSize: true,
  maxClients: true,
  store: true,
  create: true,
  index: true,
  keys: true,
  values: true,
  delegation: true,
  hotspots: true,
  lockTimeoutMs: true,
  ttlMs: true,
  sliding: true,
  clock: true,
  readOnly: true,
  chance: true,
  maxRecords: true,
  maxBytes: true,
  eviction: true,
  client: true,
  secret: true,
  tls: true,
  timeoutMs: true,
  signal: true,
};

/** Of `open`, `create` and `inspect`. */
export const OPEN_OPTIONS: readonly string[] = Object.keys(OPEN);

/** Raises SW_INVALID_ARGUMENT for what is no options, and for a name that none of them has. */
export function checkOpenOptions(options: unknown): void {
  checkOptions(options, OPEN_OPTIONS);
}

/** The option of `destroy` and `dropStore`. Raises SW_INVALID_ARGUMENT. */
export function forceIn(options: { force?: boolean }): boolean {
  checkOptions(options, [...OPEN_OPTIONS, 'force']);
  const { force = false } = options;
  checkFlag('force', force);
  return force;
}

/** Raises SW_INVALID_ARGUMENT. */
export function checkCheckOptions(options: CheckOptions): void {
  checkOptions(options, [...OPEN_OPTIONS, 'onProgress', 'sweep']);
  if (options.onProgress !== undefined) checkFunction('onProgress', options.onProgress);
  checkFlag('sweep', options.sweep);
}
