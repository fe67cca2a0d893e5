import { SLOTS_AT } from './geometry.ts';
import type { LeafClient } from './leaf-client.ts';
import { FROZEN } from './link.ts';
import type { Visit } from './node-io.ts';
import { isVacant } from './slot.ts';

/** Whether somebody has begun to replace the leaf. */
export function isFrozen({ geometry }: LeafClient, { image }: Visit): boolean {
  let flags = 0;
  for (let at = SLOTS_AT; at < geometry.leafBytes; at += 8) flags |= image.i32[(at >> 2) + 1];
  return (flags & FROZEN) !== 0;
}

/** Whether the neighbourhood of a home has no empty slot. */
export function isFull({ geometry }: LeafClient, { image }: Visit, home: number): boolean {
  const { span, neighbourhood } = geometry.shape;
  for (let i = 0; i < neighbourhood; i++) {
    const word = (SLOTS_AT >> 2) + 2 * ((home + i) % span);
    if (isVacant(image.i32[word], image.i32[word + 1])) return false;
  }
  return true;
}
