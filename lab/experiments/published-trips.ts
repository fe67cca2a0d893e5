import type { Call } from '../support/lab-client.ts';

/**
 * Round trips of an operation without conflicts or resizing, records included, as the papers say.
 * RACE: section 3.3. SepHash: sections 4.3 and 4.4, whose blind writes are `put`. SHARD: Table 1,
 * plus the round trip of the record. HStore: section 5.3, which says nothing about writes. CHIME is
 * missing: its Table 1, with all internal nodes cached, is for records within its leaves.
 */
const PUBLISHED: Readonly<Record<string, Partial<Record<Call, number>>>> = {
  race: { put: 3, insert: 3, update: 3, search: 2, delete: 3 },
  sephash: { put: 2, search: 2 },
  shard: { search: 2 },
  hstore: { search: 2 },
};

/** Undefined where a paper says nothing, or says it of another operation. */
export function publishedTrips(index: string, call: Call): number | undefined {
  return PUBLISHED[index]?.[call];
}
