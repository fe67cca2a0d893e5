import { type Address, type Batch, CALL, type Scratch } from '../../src/verbs/index.ts';

/**
 * Posts a two-sided call, which a core of the memory node of `address` answers: for baselines that
 * need one. Request and reply are the `bytes` at `offset`. A call stands alone in its batch.
 */
export function postCall(
  batch: Batch,
  address: Address,
  bytes: number,
  scratch: Scratch,
  offset: number,
): Batch {
  const row = batch.length;
  batch.read(address, bytes, scratch, offset);
  batch.kind[row] = CALL;
  return batch;
}
