import {
  ADDS,
  type Batch,
  BYTES_READ,
  BYTES_WRITTEN,
  CAS,
  FAA,
  READ,
  READS,
  ROUND_TRIPS,
  SWAPS,
  type TrafficCounters,
  WRITE,
  WRITES,
} from '../../src/verbs/index.ts';

/** Counts a batch as every fabric does. A batch that is waited for is one round trip. */
export function countBatch({ rows }: TrafficCounters, batch: Batch): void {
  const { length, kind, bytes } = batch;
  if (batch.isWaitedFor) rows[ROUND_TRIPS]++;
  for (let row = 0; row < length; row++) {
    if (kind[row] === READ) {
      rows[READS]++;
      rows[BYTES_READ] += bytes[row];
    } else if (kind[row] === WRITE) {
      rows[WRITES]++;
      rows[BYTES_WRITTEN] += bytes[row];
    } else if (kind[row] === CAS) {
      rows[SWAPS]++;
    } else if (kind[row] === FAA) {
      rows[ADDS]++;
    }
  }
}
