import type { ChimeIndex } from '../../../src/indexes/chime/chime.ts';
import type { Link } from '../../../src/indexes/chime/nodes/link.ts';
import type { LeafBounds } from '../../../src/indexes/chime/nodes/node-client.ts';
import type { ChimeRequest } from '../../../src/indexes/chime/request.ts';
import { ITEM_AT, SEQUENCE_AT } from '../../../src/indexes/substrates/leaf/layout.ts';
import { OWNED } from '../../../src/indexes/substrates/leaf/leaf-client.ts';
import { FIRST_SEQUENCE_AT, IMAGE_AT } from '../../../src/indexes/substrates/leaf/leaf-request.ts';
import { SECOND_LEAF } from '../../../src/pool/intents/intent.ts';
import { freeHigh, IDENTITY_AT } from '../../../src/pool/intents/lock-word.ts';
import { type Address, type Batch, type Scratch, setWord } from '../../../src/verbs/index.ts';
import type { Canary } from '../canary.ts';
import type { FailureKind } from '../checks/failure.ts';

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

/** A bug in what each request of a client posts. */
function inRequests(change: (request: ChimeRequest, index: ChimeIndex) => void): Plant {
  return (index) => {
    const { tree } = index;
    const { newRequest } = tree;
    tree.newRequest = () => {
      const request = newRequest.call(tree);
      change(request, index);
      return request;
    };
  };
}

type Posts = (address: Address, bytes: number, scratch: Scratch, offset: number) => Batch;

const LAST_AT = IMAGE_AT + IDENTITY_AT;

/** Both sequences of a search are read at one end of it. */
function bracketAt(end: typeof FIRST_SEQUENCE_AT | typeof LAST_AT): Plant {
  return inRequests(({ batch }) => {
    const post: Posts = batch.read.bind(batch);
    batch.read = (address, bytes, scratch, offset) => {
      const isFirst = offset === FIRST_SEQUENCE_AT;
      if (!isFirst && offset !== LAST_AT) return post(address, bytes, scratch, offset);
      if (offset !== end) return batch;
      const sequence = isFirst ? address : address + SEQUENCE_AT - IDENTITY_AT;
      post(sequence, 8, scratch, FIRST_SEQUENCE_AT);
      return post(sequence - SEQUENCE_AT + IDENTITY_AT, 16, scratch, LAST_AT);
    };
  });
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
  canary('items are believed without their checksums', 'linearizability', ({ tree }) => {
    tree.sums.holds = () => true;
  }),
  canary(
    'both sequences of a search are read before its entries',
    'linearizability',
    bracketAt(FIRST_SEQUENCE_AT),
  ),
  canary(
    'both sequences of a search are read after its entries',
    'linearizability',
    bracketAt(LAST_AT),
  ),
  canary('no client looks whether a leaf was split', 'linearizability', ({ tree }) => {
    tree.owns = () => OWNED;
  }),
  canary(
    'no intent is written',
    'error',
    inRequests(({ intent }) => {
      intent.postWhole = () => {};
    }),
  ),
  canary(
    'the intent is written behind the leaf',
    'error',
    inRequests(({ intent }) => {
      const { postWhole, postWrites } = intent;
      let late: Parameters<typeof postWhole> | undefined;
      intent.postWhole = (...where) => {
        late = where;
      };
      intent.postWrites = (batch) => {
        postWrites.call(intent, batch);
        if (late !== undefined) postWhole.apply(intent, late);
      };
    }),
  ),
  canary(
    'the sibling of a split is born unlocked',
    'error',
    inRequests(({ batch }, { tree }) => {
      const post: Posts = batch.write.bind(batch);
      batch.write = (address, bytes, scratch, offset) => {
        if (bytes === tree.geometry.leafBytes) {
          const { i32 } = scratch;
          setWord(scratch, 0, i32[2], freeHigh(i32[3]));
        }
        return post(address, bytes, scratch, offset);
      };
    }),
  ),
  canary(
    'the entries of a merged leaf are not cleared',
    'linearizability',
    inRequests(({ intent }, { tree }) => {
      const { addWord } = intent;
      const isEntry = (at: number) => {
        for (let entry = 0; entry < tree.geometry.shape.span; entry++) {
          if (at === tree.geometry.entryAt(entry) + ITEM_AT) return true;
        }
        return false;
      };
      intent.addWord = (leaf, address, low, high) => {
        if (leaf === SECOND_LEAF && isEntry(address - intent.leaf(SECOND_LEAF))) return;
        addWord.call(intent, leaf, address, low, high);
      };
    }),
  ),
  canary('a sibling is linked by what was read before its parent', 'error', oldBounds),
];
