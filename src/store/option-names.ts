import type { OpenOptions } from './api.ts';
import { checkOptions } from './calls/arguments.ts';

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
/** Of `destroy` and `dropStore`. */
export const FORCED_OPTIONS: readonly string[] = [...OPEN_OPTIONS, 'force'];
/** Of `check`. */
export const CHECK_OPTIONS: readonly string[] = [...OPEN_OPTIONS, 'onProgress', 'sweep'];

/** Raises SW_INVALID_ARGUMENT for what is no options, and for a name that none of them has. */
export function checkOpenOptions(options: unknown): void {
  checkOptions(options, OPEN_OPTIONS);
}
