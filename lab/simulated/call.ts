import { type Address, type Batch, CALL, type Scratch } from '../../src/verbs/index.ts';

/**
 * A two-sided call: a request that a core of the memory node answers. Here it exists for baselines
 * that need it and stands alone in its batch.
 */
export { CALL };

/** Posts a call to the node of `address`; request and reply are the `bytes` at `offset`. */
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
