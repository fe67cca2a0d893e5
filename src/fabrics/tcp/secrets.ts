import { createHmac, timingSafeEqual } from 'node:crypto';

/** Both ends prove that they know the secret, each over the nonces of both; it is never sent. */
export const NONCE_BYTES = 32;
export const PROOF_BYTES = 32;

export interface Transcript {
  boot: number;
  session: number;
  nodeNonce: Uint8Array;
  clientNonce: Uint8Array;
}

export function proofOf(
  role: 'client' | 'node',
  secret: Uint8Array,
  { boot, session, nodeNonce, clientNonce }: Transcript,
): Uint8Array {
  return createHmac('sha256', secret)
    .update(`stepwell ${role} ${boot} ${session}\0`)
    .update(nodeNonce)
    .update(clientNonce)
    .digest();
}

/** In a time that does not tell how much of the proof was right. */
export function sameProof(given: Uint8Array, expected: Uint8Array): boolean {
  return given.length === expected.length && timingSafeEqual(given, expected);
}
