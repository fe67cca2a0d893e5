import type { ExpiryOptions } from '../../../store/api.ts';
import type { Operation } from '../../../verbs/index.ts';
import type { GatewayStore } from '../../gateway-store.ts';
import { retry } from './modify.ts';

/** A record as it was found. */
interface Found {
  readonly value: Uint8Array;
  readonly version: number;
  readonly expiry: ExpiryOptions;
}

/** The outcome of `transfer`. */
export type Transferred = 'done' | 'no source' | 'target exists';

interface Transfer {
  readonly from: GatewayStore;
  readonly source: Buffer;
  readonly to: GatewayStore;
  readonly target: Buffer;
  /** Whether a target that exists is replaced. */
  readonly replace: boolean;
  /** Whether the source is deleted. */
  readonly move: boolean;
}

/**
 * Writes a value under another key with the same time to live, and deletes the first one if it is a
 * move. A client of another process may see both, and neither if this process dies in between is
 * lost: the target is written first.
 */
export function* transfer({
  from,
  source,
  to,
  target,
  replace,
  move,
}: Transfer): Operation<Transferred> {
  let outcome: Transferred = 'done';
  let isWritten = false;
  yield* retry(function* () {
    const found = yield* find(from, source);
    if (found === 'changed') return false;
    if (found === undefined) {
      // Another client has deleted it after the target was written: that is what a move does.
      if (!isWritten) outcome = 'no source';
      return true;
    }
    if (replace || isWritten) yield* to.set(target, found.value, found.expiry);
    else if (!(yield* to.insert(target, found.value, found.expiry))) {
      outcome = 'target exists';
      return true;
    }
    isWritten = true;
    return !move || (yield* from.compareAndDelete(source, found.version));
  });
  return outcome;
}

function* find(store: GatewayStore, key: Buffer): Operation<Found | 'changed' | undefined> {
  const entry = yield* store.getEntry(key);
  const metadata = yield* store.metadata(key);
  if (entry === undefined) return undefined;
  if (metadata?.version !== entry.version) return 'changed';
  const { expiresAt } = metadata;
  const isTimed = expiresAt !== Number.POSITIVE_INFINITY;
  // Infinity, so that a default of the store does not count.
  const expiry = isTimed ? { expiresAt } : { ttlMs: Number.POSITIVE_INFINITY };
  return { value: entry.value, version: entry.version, expiry };
}
