import { siblingIn, writePivot } from '../../../src/indexes/chime/bounds.ts';
import { CHIME, type ChimeIndex } from '../../../src/indexes/chime/chime.ts';
import {
  CHILDREN_AT,
  childrenIn,
  isPairFrozen,
  linkIn,
  PAIR_FROZEN,
  pairIn,
} from '../../../src/indexes/chime/nodes/internal-node.ts';
import { compareWhole } from '../../../src/indexes/chime/nodes/keys.ts';
import { isInternal, type Link } from '../../../src/indexes/chime/nodes/link.ts';
import type { LeafBounds, StepMemory } from '../../../src/indexes/chime/nodes/node-client.ts';
import { rootLink, visit } from '../../../src/indexes/chime/nodes/node-io.ts';
import type { ChimeRequest } from '../../../src/indexes/chime/request.ts';
import type { ChimeTree } from '../../../src/indexes/chime/tree.ts';
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
import { FIRST_LEAF, type Intent, SECOND_LEAF } from '../../../src/pool/intents/intent.ts';
import { NO_SLOT } from '../../../src/pool/intents/intent-slots.ts';
import { isSame, OWNER_AT } from '../../../src/pool/intents/lock-word.ts';
import type { Pool } from '../../../src/pool/pool.ts';
import { HEADER_BYTES as RECORD_HEADER_BYTES } from '../../../src/records/layout.ts';
import {
  type Address,
  Batch,
  CAS_BYTES,
  highHalf,
  lowHalf,
  type Operation,
  Scratch,
  setWord,
  swapped,
} from '../../../src/verbs/index.ts';
import type { Canary } from '../canary.ts';
import type { FailureKind } from '../checks/failure.ts';
import { inRequests, LEAF_BUGS } from './leaf.ts';

type Plant = (index: ChimeIndex) => void;

/** A bug in the tree or its leaves, planted in one client's handle. */
function canary(name: string, caughtBy: FailureKind, plant: Plant): Canary {
  return {
    name: `CHIME: ${name}`,
    caughtBy,
    kind: CHIME,
    index: (index: ChimeIndex) => {
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
 * A leaf is bounded by its highest key (argmax): deleting that key lowers the bound to it. Applies
 * to leaves that are one neighbourhood, because there a removal sees all keys.
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

/**
 * A repairer that meets the second leaf of a merge takes that over, and then does the writes to
 * both leaves if the first one was the dead client's when it looked.
 */
function takeSecondOver({ repairs, intents, layout }: Pool): void {
  repairs.repairFirst = function* (first: Address, intent: Intent) {
    const slot = intents.takeForRepair();
    if (slot === NO_SLOT) return;
    const node = layout.nodeOf(first);
    const ticket = intents.nextTicket(slot);
    const [low, high] = [intents.wordLow(ticket, node, slot), intents.wordHigh(ticket)];
    const { own } = intent;
    const words = new Scratch(CAS_BYTES);
    setWord(words, 0, own.low, own.high);
    setWord(words, 8, low, high);
    const batch = new Batch();
    intent.postCopy(intents.address(node, slot), batch, low, high);
    yield batch.cas(intent.leaf(SECOND_LEAF) + OWNER_AT, words, 0);
    if (swapped(words, 0)) {
      yield batch.clear().read(first + OWNER_AT, 8, words, 0);
      const isFree = isSame({ low: lowHalf(words, 0), high: highHalf(words, 0) }, own);
      intent.postWrites(batch.clear(), (leaf) => leaf === SECOND_LEAF || isFree);
      yield batch;
    }
    intents.give(slot);
  };
}

/** A client that has to split a leaf drops the marks that it finds, even those of other clients. */
function dropMarks({ tree }: ChimeIndex): void {
  const { makeRoom } = tree;
  tree.makeRoom = function* (request: ChimeRequest) {
    yield* dropMark(tree, yield* rootLink(tree));
    return yield* makeRoom.call(tree, request);
  };
}

function* dropMark(tree: ChimeTree, link: Link): Operation<void> {
  const { address, image } = yield* visit(tree, 0, link);
  const [children, pair] = [childrenIn(image), pairIn(image)];
  for (let child = 0; child < children; child++) {
    const below = linkIn(image, child);
    if (isInternal(below.high)) yield* dropMark(tree, below);
  }
  if (pair === 0 || isPairFrozen(image)) return;
  const words = new Scratch(CAS_BYTES);
  setWord(words, 0, children, pair);
  setWord(words, 8, children, 0);
  yield new Batch().cas(address + CHILDREN_AT, words, 0);
}

/**
 * Replaces nodes just above leaves without freezing them: the CAS of the pair's word changes
 * nothing. No other word has the number of children below a mark.
 */
function copyUnfrozen({ tree }: ChimeIndex): void {
  const { stepMemories } = tree;
  const { take } = stepMemories;
  const planted = new Set<StepMemory>();
  stepMemories.take = () => {
    const memory = take.call(stepMemories);
    if (!planted.has(memory)) freezeNothing(memory.batch);
    planted.add(memory);
    return memory;
  };
  inRequests(({ batch }: ChimeRequest) => freezeNothing(batch))(tree);
}

function freezeNothing(batch: Batch): void {
  const { cas } = batch;
  batch.cas = (address, words, at) => {
    const [low, high] = [lowHalf(words, at), highHalf(words, at)];
    const [newLow, newHigh] = [lowHalf(words, at + 8), highHalf(words, at + 8)];
    const hasCount = low > 0 && low <= CHILDREN_MAX && high >= 0 && high <= low;
    const freezes = hasCount && newLow === low && newHigh === (high | PAIR_FROZEN);
    if (freezes) setWord(words, at + 8, low, high);
    return cas.call(batch, address, words, at);
  };
}

/** More than any node of a small tree has. */
const CHILDREN_MAX = 100;

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
  {
    name: 'CHIME: the second leaf of a merge is taken over directly',
    caughtBy: 'linearizability',
    pool: takeSecondOver,
  },
  canary('a mark is dropped while its pair is merged', 'structure', dropMarks),
  canary('a node is copied that was not frozen', 'structure', copyUnfrozen),
  canary('the highest key bounds a leaf, and deletions lower it', 'linearizability', argmax),
  canary('a sibling is linked by what was read before its parent', 'error', oldBounds),
];
