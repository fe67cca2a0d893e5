import { StepwellError } from '../../../errors.ts';
import type { Operation } from '../../../verbs/index.ts';
import type { GatewayStore } from '../../gateway-store.ts';

/** Each failed attempt means that another client of the pool has changed the key. */
const ATTEMPTS_MAX = 1000;

/**
 * Replaces a value by what `change` makes of it, which keeps its time to live. `change` gets
 * undefined for a key that does not exist, and returns undefined to leave all as it is; it may be
 * called again when another client changes the key meanwhile.
 */
export function* modify(
  store: GatewayStore,
  key: Buffer,
  change: (old: Buffer | undefined) => Uint8Array | undefined,
): Operation<void> {
  yield* retry(function* () {
    const entry = yield* store.getEntry(key);
    const value = change(entry && bufferOf(entry.value));
    if (value === undefined) return true;
    if (entry === undefined) return yield* store.insert(key, value);
    const options = { keepTtl: true };
    return (yield* store.compareAndSet(key, entry.version, value, options)) !== undefined;
  });
}

/** Repeats what fails when another client changes the key meanwhile. */
export function* retry(attempt: () => Operation<boolean>): Operation<void> {
  for (let attempts = 0; attempts < ATTEMPTS_MAX; attempts++) if (yield* attempt()) return;
  throw new StepwellError('SW_CONTENTION', 'other clients change the key again and again');
}

/** The same bytes. */
export function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
