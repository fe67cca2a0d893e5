import { StepwellError } from '../../errors.ts';
import { HEADER_BYTES, KEY_BYTES_AND_KIND, unitsOf } from '../../records/layout.ts';
import { Batch, type Operation, Scratch, UNIT_BYTES } from '../../verbs/index.ts';
import { SLOTS_AT } from './geometry.ts';
import { isVacantAt, makeRoom } from './hopscotch.ts';
import { compareWhole, separatorOf } from './keys.ts';
import { ABSORB } from './link.ts';
import { freeze, type Link, NewNodes, publish, swing, type Visit } from './node-io.ts';
import { isLive, lengthOf, recordOf, SLOT_FROZEN } from './slot.ts';
import type { ChimeTree } from './tree.ts';

/** Lines of a record that are read to learn its key; a longer key costs another READ. */
const HEAD_UNITS = 2;

/**
 * Replaces a leaf (CHIME sections 2.3 and 4.4, insert): by one in which entries have hopped until
 * the neighbourhood of `home` has an empty slot, or, where no hop leads to that, by an internal
 * node over two leaves, which the parent takes up afterwards. Without a home (less than 0) by the
 * same leaf: who froze it died, and what it wanted does not matter any more.
 *
 *   freeze every slot -> [READ keys] -> D[WRITE leaves; CAS identity -> replacement] -> CAS link
 *
 * There is no lock. Whoever meets a frozen leaf does the same from the same frozen slots; the CAS
 * on its first word decides whose result counts. Until then the old leaf is what is read.
 */
export function* rebuildLeaf(tree: ChimeTree, leaf: Visit, home: number): Operation<void> {
  const nodes = new NewNodes(tree);
  try {
    // Before anything is frozen: with a full pool the leaf stays as it is.
    const address = yield* nodes.reserveLeaf();
    const slots = leaf.image.i32.slice(SLOTS_AT >> 2, tree.geometry.leafBytes >> 2);
    yield* freeze(tree, leaf.address + SLOTS_AT, slots);
    thaw(slots);
    const splits = home >= 0 && !makeRoom(slots, home, tree.geometry.shape.neighbourhood);
    if (splits && (yield* split(tree, leaf, slots))) return;
    const link = nodes.leafAt(address, slots);
    if (!(yield* publish(tree, leaf, nodes, link))) return;
    tree.hops++;
    yield* swing(tree, leaf, link, [leaf]);
    if (splits) throw new StepwellError('SW_POOL_FULL', 'no room to split a leaf');
  } finally {
    nodes.discard();
  }
}

/** Slots as they are in the new leaf: committed ones without FROZEN, and nothing else. */
function thaw(slots: Int32Array): void {
  for (let i = 0; i < slots.length; i += 2) {
    if (isLive(slots[i], slots[i + 1])) {
      slots[i + 1] &= ~SLOT_FROZEN;
    } else {
      slots[i] = 0;
      slots[i + 1] = 0;
    }
  }
}

/** False when there is no memory for it. The keys of both leaves keep their slots. */
function* split(tree: ChimeTree, leaf: Visit, slots: Int32Array): Operation<boolean> {
  const nodes = new NewNodes(tree);
  try {
    const { below, separator } = yield* halve(slots);
    const left = slots.slice();
    const right = slots.slice();
    for (let i = 0; i < slots.length / 2; i++) {
      const other = below.has(i) ? right : left;
      other[2 * i] = 0;
      other[2 * i + 1] = 0;
    }
    const first = nodes.leafAt(yield* nodes.reserveLeaf(), left);
    const second = nodes.leafAt(yield* nodes.reserveLeaf(), right);
    const links = Int32Array.of(first.low, first.high, second.low, second.high);
    const over = yield* nodes.internal({ links, separators: [separator] }, ABSORB);
    yield* link(tree, leaf, nodes, over);
    return true;
  } catch (error) {
    if (error instanceof StepwellError && error.code === 'SW_POOL_FULL') return false;
    throw error;
  } finally {
    nodes.discard();
  }
}

function* link(tree: ChimeTree, leaf: Visit, nodes: NewNodes, over: Link): Operation<void> {
  if (!(yield* publish(tree, leaf, nodes, over))) return;
  tree.splits++;
  yield* swing(tree, leaf, over, [leaf]);
}

/** The lower half of the keys, by slot, and what separates it from the upper one. */
function* halve(slots: Int32Array): Operation<{ below: Set<number>; separator: Uint8Array }> {
  const entries = yield* readKeys(slots);
  entries.sort((a, b) => compareWhole(a.key, b.key));
  const middle = entries.length >>> 1;
  return {
    below: new Set(entries.slice(0, middle).map(({ slot }) => slot)),
    separator: separatorOf(entries[middle - 1].key, entries[middle].key),
  };
}

/** Reads the keys of all entries, together. */
function* readKeys(slots: Int32Array): Operation<{ slot: number; key: Uint8Array }[]> {
  const entries: { slot: number; key: Uint8Array }[] = [];
  const heads = new Scratch((slots.length / 2) * HEAD_UNITS * UNIT_BYTES);
  const batch = new Batch();
  for (let slot = 0; slot < slots.length / 2; slot++) {
    if (isVacantAt(slots, slot)) continue;
    const record = recordOf(slots[2 * slot], slots[2 * slot + 1]);
    const units = Math.min(HEAD_UNITS, lengthOf(slots[2 * slot + 1]));
    const at = entries.length * HEAD_UNITS * UNIT_BYTES;
    batch.read(record, units * UNIT_BYTES, heads, at);
    entries.push({ slot, key: new Uint8Array(0) });
  }
  if (batch.length > 0) yield batch;
  for (let i = 0; i < entries.length; i++) {
    const at = i * HEAD_UNITS * UNIT_BYTES;
    const keyBytes = heads.i32[(at + KEY_BYTES_AND_KIND) >> 2] & 0xffff;
    const { slot } = entries[i];
    entries[i].key =
      HEADER_BYTES + keyBytes <= HEAD_UNITS * UNIT_BYTES
        ? heads.u8.slice(at + HEADER_BYTES, at + HEADER_BYTES + keyBytes)
        : yield* readLongKey(slots, slot, keyBytes);
  }
  return entries;
}

function* readLongKey(slots: Int32Array, slot: number, keyBytes: number): Operation<Uint8Array> {
  const units = unitsOf(HEADER_BYTES + keyBytes);
  const head = new Scratch(units * UNIT_BYTES);
  const record = recordOf(slots[2 * slot], slots[2 * slot + 1]);
  yield new Batch().read(record, units * UNIT_BYTES, head, 0);
  return head.u8.slice(HEADER_BYTES, HEADER_BYTES + keyBytes);
}
