import type { ChimeIndex } from '../../../src/indexes/chime/chime.ts';
import type { Link } from '../../../src/indexes/chime/nodes/link.ts';
import type { LeafBounds } from '../../../src/indexes/chime/nodes/node-client.ts';
import type { ChimeRequest } from '../../../src/indexes/chime/request.ts';
import { ITEM_AT } from '../../../src/indexes/substrates/leaf/layout.ts';
import { type LeafClient, OWNED } from '../../../src/indexes/substrates/leaf/leaf-client.ts';
import { SECOND_LEAF } from '../../../src/pool/intents/intent.ts';
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
  canary('a sibling is linked by what was read before its parent', 'error', oldBounds),
];
