import { StepwellError } from '../../errors.ts';
import { type Bound, type BoundSettings, EVICTIONS } from '../../pool/bound.ts';
import type { OpenOptions } from '../api.ts';
import { invalid, shown } from '../arguments.ts';
import { bytesOf } from '../sizes.ts';

/** The bound that `maxRecords`, `maxBytes` and `eviction` ask for. Raises SW_INVALID_ARGUMENT. */
export function boundSettings(options: OpenOptions): BoundSettings | undefined {
  const { maxRecords, maxBytes, eviction = 'lru' } = options;
  if (!EVICTIONS.includes(eviction)) {
    throw invalid(`eviction is one of ${EVICTIONS.join(', ')}: ${shown(eviction)}`);
  }
  if (maxRecords !== undefined && maxBytes !== undefined) {
    throw invalid('a store has maxRecords or maxBytes, not both');
  }
  const unit = maxBytes === undefined ? 'records' : 'bytes';
  const limit = maxRecords === undefined ? bytesOf('maxBytes', maxBytes) : maxRecords;
  if (limit === undefined) {
    if (options.eviction === undefined) return undefined;
    throw invalid('eviction needs maxRecords or maxBytes');
  }
  if (!Number.isSafeInteger(limit) || limit < 1) {
    throw invalid(`max${unit === 'records' ? 'Records' : 'Bytes'} is 1 or more: ${shown(limit)}`);
  }
  return { unit, limit, eviction };
}

/** Raises SW_UNSUPPORTED for delegation. */
export function refuseDelegation({ delegation }: OpenOptions): void {
  if (!delegation) return;
  throw new StepwellError('SW_UNSUPPORTED', 'a bounded store has no delegation: it counts writes');
}

/** Raises SW_STORE_MISMATCH when a store does not have the bound that is asked for. */
export function refuseOtherBound(
  store: string,
  bound: Bound | undefined,
  wanted: BoundSettings,
): void {
  const { unit, limit, eviction } = wanted;
  if (bound?.unit === unit && bound.limit === limit && bound.eviction === eviction) return;
  const is = bound === undefined ? 'no bound' : described(bound);
  throw new StepwellError(
    'SW_STORE_MISMATCH',
    `store ${store} exists with ${is}, not ${described(wanted)}`,
  );
}

function described({ unit, limit, eviction }: BoundSettings): string {
  return `${unit === 'records' ? 'maxRecords' : 'maxBytes'} ${limit}, eviction ${eviction}`;
}
