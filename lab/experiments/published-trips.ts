import type { Call } from '../support/lab-client.ts';

/**
 * The papers' round trips of an operation without conflicts or resizing, including the record.
 * RACE: section 3.3. SepHash: sections 4.3 and 4.4; its writes do not search first, like `put`.
 * SHARD: Table 1, plus the round trip for the record. HStore: section 5.3, which says nothing about
 * writes. CHIME is missing: its Table 1 counts records that are stored in the leaves.
 */
const PUBLISHED: Readonly<Record<string, Partial<Record<Call, number>>>> = {
  race: { put: 3, insert: 3, update: 3, search: 2, delete: 3 },
  sephash: { put: 2, search: 2 },
  shard: { search: 2 },
  hstore: { search: 2 },
};

/** Undefined where the paper gives no figure for this operation. */
export function publishedTrips(index: string, call: Call): number | undefined {
  return PUBLISHED[index]?.[call];
}
