import { StepwellError } from '../../../errors.ts';
import type { Operation } from '../../../verbs/index.ts';
import type { GatewayStore } from '../../gateway-store.ts';

/** An attempt fails only if another client of the pool changes the key. */
const ATTEMPTS_MAX = 1000;

/**
 * Replaces a value by the result of `change` and keeps its time to live. `change` gets undefined
 * for an absent key, and returns undefined to change nothing. It runs again if another client
 * changes the key at the same time.
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

/** Runs `attempt` until it returns true. It returns false if another client changed the key. */
export function* retry(attempt: () => Operation<boolean>): Operation<void> {
  for (let attempts = 0; attempts < ATTEMPTS_MAX; attempts++) if (yield* attempt()) return;
  throw new StepwellError('SW_CONTENTION', 'other clients change the key again and again');
}

/** A Buffer view of the same bytes. */
export function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
