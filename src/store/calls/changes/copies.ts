import type { Expiry } from '../../../records/times.ts';

/** A record as it stands in a store, of whatever kind; for copying stores. */
export interface CopiedRecord {
  key: Uint8Array;
  value: Uint8Array;
  codec: number;
  /** Of a record that expires: a deadline stays what it is, a sliding time begins anew. */
  expiry: Expiry | undefined;
}
