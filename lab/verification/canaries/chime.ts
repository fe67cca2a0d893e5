import { siblingIn, writePivot } from '../../../src/indexes/chime/bounds.ts';
import type { ChimeIndex } from '../../../src/indexes/chime/chime.ts';
import { compareWhole } from '../../../src/indexes/chime/nodes/keys.ts';
import type { Link } from '../../../src/indexes/chime/nodes/link.ts';
import type { LeafBounds } from '../../../src/indexes/chime/nodes/node-client.ts';
import type { ChimeRequest } from '../../../src/indexes/chime/request.ts';
import {
  isEmpty,
  isIndirect,
  itemHigh,
  keyBytesOf,
} from '../../../src/indexes/substrates/leaf/entry.ts';
import {
  BOUNDS_AT,
  CONTENT_AT,
  HEADER_BYTES,
  ITEM_AT,
} from '../../../src/indexes/substrates/leaf/layout.ts';
import { type LeafClient, OWNED } from '../../../src/indexes/substrates/leaf/leaf-client.ts';
import { IMAGE_AT } from '../../../src/indexes/substrates/leaf/leaf-request.ts';
import { FIRST_LEAF, SECOND_LEAF } from '../../../src/pool/intents/intent.ts';
import { HEADER_BYTES as RECORD_HEADER_BYTES } from '../../../src/records/layout.ts';
import type { Canary } from '../canary.ts';
import type { FailureKind } from '../checks/failure.ts';
import { inRequests, LEAF_BUGS } from './leaf.ts';

type Plant = (index: ChimeIndex) => void;

/** A bug in the tree or its leaves, planted in one client's handle. */
function canary(name: string, caughtBy: FailureKind, plant: Plant): Canary {
  return {
    name: `CHIME: ${name}`,
    caughtBy,
    chime: (index) => {
      plant(index);
      return index;
    },
  };
}

/** A sibling is linked by what a client read of the leaf when it met it first. */
function oldBounds({ tree }: ChimeIndex): void {
  const { readBounds } = tree;
  const known = new Map<string, LeafBounds | undefined>();
  tree.readBounds = function* (leaf: Link) {
    const name = `${leaf.low} ${leaf.high}`;
    const older = known.get(name);
    if (older?.sibling !== undefined) return older;
    const bounds = yield* readBounds.call(tree, leaf);
    known.set(name, bounds);
    return bounds;
  };
}

/**
 * The highest key of a leaf bounds it (argmax): when it is deleted, the bound goes down to it. Only
 * of leaves that are one neighbourhood, of which a removal sees all keys.
 */
function argmax(index: ChimeIndex): void {
  const { tree } = index;
  inRequests((request: ChimeRequest) => {
    const { intent, words } = request;
    const { addRelease, addWord } = intent;
    let removed = -1;
    intent.addWord = (leaf, address, low, high) => {
      addWord.call(intent, leaf, address, low, high);
      if (low === 0 && high === 0) removed = address - request.leaf;
    };
    intent.addRelease = (leaf) => {
      const hasSibling = siblingIn(words, IMAGE_AT + BOUNDS_AT) !== undefined;
      const { keyBytes, outgoing } = request;
      const key = outgoing.u8.slice(RECORD_HEADER_BYTES, RECORD_HEADER_BYTES + keyBytes);
      if (removed >= 0 && hasSibling && isHighest(index, request, key)) {
        const at = intent.add(
          FIRST_LEAF,
          request.leaf + BOUNDS_AT + 8,
          HEADER_BYTES - BOUNDS_AT - 8,
        );
        writePivot(intent.memory, at - 8, key, 0);
      }
      removed = -1;
      addRelease.call(intent, leaf);
    };
  })(tree);
}

function isHighest({ tree }: ChimeIndex, { words, known }: ChimeRequest, key: Uint8Array): boolean {
  const { span } = tree.geometry.shape;
  if (known < span || key.length > PIVOT_BYTES) return false;
  for (let entry = 0; entry < span; entry++) {
    const at = IMAGE_AT + tree.geometry.entryAt(entry);
    const item = itemHigh(words, at);
    if (isEmpty(item)) continue;
    if (isIndirect(item)) return false;
    const from = at + CONTENT_AT;
    if (compareWhole(words.u8.slice(from, from + keyBytesOf(item)), key) > 0) return false;
  }
  return true;
}

const PIVOT_BYTES = 16;

export const CHIME_CANARIES: readonly Canary[] = [
  ...LEAF_BUGS.map(({ name, caughtBy, plant }) => {
    return canary(name, caughtBy, ({ tree }) => plant(tree as unknown as LeafClient));
  }),
  canary('no client looks whether a leaf was split', 'linearizability', ({ tree }) => {
    tree.owns = () => OWNED;
  }),
  canary('the entries of a merged leaf are not cleared', 'linearizability', ({ tree }) => {
    const isEntry = (at: number) => {
      for (let entry = 0; entry < tree.geometry.shape.span; entry++) {
        if (at === tree.geometry.entryAt(entry) + ITEM_AT) return true;
      }
      return false;
    };
    inRequests(({ intent }: ChimeRequest) => {
      const { addWord } = intent;
      intent.addWord = (leaf, address, low, high) => {
        if (leaf === SECOND_LEAF && isEntry(address - intent.leaf(SECOND_LEAF))) return;
        addWord.call(intent, leaf, address, low, high);
      };
    })(tree);
  }),
  canary('the highest key bounds a leaf, and deletions lower it', 'linearizability', argmax),
  canary('a sibling is linked by what was read before its parent', 'structure', oldBounds),
];
