import type { LeafClient } from '../../../src/indexes/substrates/leaf/leaf-client.ts';

/** As if the client had met misses only: its searches read at once what proves one. */
export function meetMisses({ missProof }: LeafClient): void {
  for (let i = 0; i < 64; i++) missProof.note(false);
}

/** The searches of other clients read it after a neighbourhood without a hit. */
export function everyOtherMeetsMisses(client: LeafClient): void {
  if (client.pool.membership.id % 2 !== 0) meetMisses(client);
}
