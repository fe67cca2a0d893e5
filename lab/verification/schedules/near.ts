import { type Index, isProving } from '../../../src/indexes/contract.ts';
import type { LocalPool } from '../../../src/pool/local-pool.ts';
import { NearReads, type NearSection } from '../../../src/store/near/near-reads.ts';
import type { StoredFormat } from '../../../src/store/values.ts';
import type { Canary } from '../canary.ts';

/** Near reads keep what a format of this name yields; a schedule keeps states of keys. */
const STATES: StoredFormat = {
  name: 'json',
  reads: 'utf8',
  encode: (value) => JSON.stringify(value),
  decode: (text) => JSON.parse(text as string),
};
const SETTINGS = { maxEntries: 64, maxBytes: Number.POSITIVE_INFINITY, freeze: false };

/**
 * The near reads of a simulated client, which post READs as over a network. The schedule announces
 * its epochs. Undefined for an index without proofs.
 */
export function nearReadsOf(
  pool: LocalPool,
  index: Index,
  canary: Canary | undefined,
): NearReads | undefined {
  if (!isProving(index)) return undefined;
  const section: NearSection = {
    pool,
    inPlace: undefined,
    *enter() {
      yield* [];
    },
    exit() {},
  };
  const { index: seen, section: used } = canary?.near?.({ index, section }) ?? { index, section };
  const reads = new NearReads(used, seen, SETTINGS, { values: STATES });
  return canary?.nearReads?.(reads) ?? reads;
}
