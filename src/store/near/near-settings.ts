import { type Index, isProving, type ProvingIndex } from '../../indexes/contract.ts';
import type { NearCacheOptions, OpenOptions } from '../api.ts';
import { checkFlag, checkOptions, invalid, shown, unsupported } from '../arguments.ts';
import { bytesOf } from '../sizes.ts';
import { ENTRIES_MAX, type NearSettings } from './near-cache.ts';

const OPTIONS: readonly (keyof NearCacheOptions)[] = ['maxEntries', 'maxBytes', 'freeze'];

/** The near cache that the options of `open` ask for, if any. Raises SW_INVALID_ARGUMENT. */
export function nearSettingsOf({
  nearCache,
}: Pick<OpenOptions, 'nearCache'>): NearSettings | undefined {
  if (nearCache === undefined) return undefined;
  const options = typeof nearCache === 'number' ? { maxEntries: nearCache } : nearCache;
  checkOptions(options, OPTIONS);
  const { maxEntries = ENTRIES_MAX, freeze = true } = options;
  const maxBytes = bytesOf('nearCache.maxBytes', options.maxBytes) ?? Number.POSITIVE_INFINITY;
  checkFlag('nearCache.freeze', freeze);
  const isCount = Number.isInteger(maxEntries) && maxEntries >= 0 && maxEntries <= ENTRIES_MAX;
  if (!isCount) {
    const what = `an integer of 0..${ENTRIES_MAX}`;
    throw invalid(`nearCache, or its maxEntries, is ${what}: ${shown(maxEntries)}`);
  }
  if (typeof maxBytes !== 'number' || !(maxBytes >= 0)) {
    throw invalid(`nearCache.maxBytes is a number of at least 0: ${shown(maxBytes)}`);
  }
  if (options.maxEntries === undefined && options.maxBytes === undefined) {
    throw invalid('nearCache needs maxEntries or maxBytes');
  }
  return maxEntries === 0 || maxBytes === 0 ? undefined : { maxEntries, maxBytes, freeze };
}

/** The index, if near reads of it can be proven. Raises SW_UNSUPPORTED otherwise. */
export function provingIndex(
  store: string,
  index: Index,
  { delegation }: Pick<OpenOptions, 'delegation'>,
): ProvingIndex {
  if (!isProving(index)) {
    const { name } = index.manifest;
    const why = 'which cannot show in one look that a record is still current';
    const remedy = 'leave nearCache out, or copy the store into one with another index';
    throw unsupported(`store ${store} has the index ${name}, ${why}; ${remedy}`);
  }
  if (!delegation) return index;
  const why = 'a call that shares the verbs of another one does not see where the record stands';
  throw unsupported(`nearCache goes without delegation: ${why}`);
}
