import { ChimeIndex } from '../../../src/indexes/chime/chime.ts';
import { leaveGone, reach } from '../../../src/indexes/chime/descent.ts';
import { EVERYTHING, KeyScale } from '../../../src/indexes/chime/key-scale.ts';
import { compareWhole } from '../../../src/indexes/chime/keys.ts';
import { readKeys } from '../../../src/indexes/chime/leaf-entries.ts';
import { FROZEN, UP } from '../../../src/indexes/chime/link.ts';
import { GONE, judge, place, postNeighbourhood } from '../../../src/indexes/chime/neighbourhood.ts';
import { settle } from '../../../src/indexes/chime/settle.ts';
import { hintOf, withHint } from '../../../src/indexes/chime/slot.ts';
import type { ChimeRequest, ChimeTree } from '../../../src/indexes/chime/tree.ts';
import type { Condition, Outcome } from '../../../src/indexes/contract.ts';
import { HEADER_BYTES } from '../../../src/records/layout.ts';
import { type Batch, CAS, type Operation, type Scratch } from '../../../src/verbs/index.ts';
import type { Canary } from '../canary.ts';

/** A bug in CHIME, planted in one client's handle of a tree. */
function canary(name: string, plant: (index: ChimeIndex) => ChimeIndex): Canary {
  return { name: `CHIME: ${name}`, caughtBy: 'linearizability', chime: plant };
}

/** Takes what it has read of a leaf for good, whether it was replaced meanwhile or not. */
class Unconfirmed extends ChimeIndex {
  override *search(request: ChimeRequest): Operation<boolean> {
    const { tree } = this;
    tree.cache.begin();
    place(tree, request);
    for (let attempt = 1; ; attempt++) {
      yield* reach(tree, request);
      const checked = !tree.isSure(request);
      yield postNeighbourhood(tree, request, request.batch.clear(), checked);
      if (judge(tree, request) !== GONE) return yield* settle(tree, request);
      yield* leaveGone(tree, request, attempt);
    }
  }
}

/** Whether a CAS, by the halves of what it expects and of what it wants, is to change nothing. */
type Omits = (low: number, high: number, newLow: number, newHigh: number) => boolean;

/** Writes with some CAS left out, as if they had succeeded. */
class Omitting extends ChimeIndex {
  readonly #omits: Omits;

  constructor(tree: ChimeTree, omits: Omits) {
    super(tree);
    this.#omits = omits;
  }

  override write(request: ChimeRequest, condition: Condition, expected = 0): Operation<Outcome> {
    return this.#without(super.write(request, condition, expected));
  }

  override remove(request: ChimeRequest, expected?: number): Operation<boolean> {
    return this.#without(super.remove(request, expected));
  }

  *#without<T>(operation: Operation<T>): Operation<T> {
    for (let step = operation.next(); ; step = operation.next()) {
      if (step.done) return step.value;
      const undo = this.#disarm(step.value);
      yield step.value;
      for (const put of undo) put();
    }
  }

  /** Makes each such CAS want what it expects, until it has been executed. */
  #disarm({ kind, length, offset, scratch }: Batch): (() => void)[] {
    const undo: (() => void)[] = [];
    for (let i = 0; i < length; i++) {
      if (kind[i] !== CAS) continue;
      const { i32 }: Scratch = scratch[i];
      const at = offset[i] >> 2;
      const [low, high, newLow, newHigh] = i32.subarray(at, at + 4);
      if (!this.#omits(low, high, newLow, newHigh)) continue;
      i32.set([low, high], at + 2);
      undo.push(() => i32.set([newLow, newHigh], at + 2));
    }
    return undo;
  }
}

/**
 * The published half-split (CHIME, section 4.2.3): the border of the two leaves is not kept. It is
 * read off the highest key of the left leaf when it is wanted.
 */
function forgetPivot({ tree }: ChimeIndex): void {
  const { halve } = tree;
  tree.halve = function* (leaf, slots) {
    const halves = yield* halve.call(tree, leaf, slots);
    const keys = (yield* readKeys(tree, halves.left)).map(({ key }) => key).sort(compareWhole);
    return { ...halves, separator: keys[keys.length - 1] };
  };
}

/** The entries of both halves of a split keep the hints that they had in the whole. */
function keepHints({ tree }: ChimeIndex): void {
  const { halve } = tree;
  tree.halve = function* (leaf, slots) {
    const halves = yield* halve.call(tree, leaf, slots);
    const hints = new Map<number, number>();
    for (let i = 0; i < slots.length; i += 2) hints.set(slots[i], hintOf(slots[i + 1]));
    for (const half of [halves.left, halves.right]) {
      for (let i = 0; i < half.length; i += 2) {
        half[i + 1] = withHint(half[i + 1], hints.get(half[i]) ?? 0);
      }
    }
    return halves;
  };
}

/** An insertion takes its hint from other borders than those of its leaf. */
function misplace({ tree }: ChimeIndex): void {
  const scale = new KeyScale().set({ ...EVERYTHING, lower: Uint8Array.of(0x6b, 0x31) });
  tree.hintOf = ({ outgoing: { u8 }, keyBytes }) =>
    scale.hintOf(u8, HEADER_BYTES, HEADER_BYTES + keyBytes);
}

export const CHIME_CANARIES: readonly Canary[] = [
  canary('links that are remembered are trusted for ever', (index) => {
    index.tree.isSure = () => true;
    index.tree.cache.isKnown = () => true;
    return index;
  }),
  canary('the pivot of a split is not kept', (index) => {
    forgetPivot(index);
    return index;
  }),
  canary('hints are kept across a split', (index) => {
    keepHints(index);
    return index;
  }),
  canary('a hint between the borders of another leaf', (index) => {
    misplace(index);
    return index;
  }),
  canary('a search whose miss is not confirmed', ({ tree }) => new Unconfirmed(tree)),
  canary(
    'empty entries are not frozen',
    ({ tree }) =>
      new Omitting(tree, (low, high, _, newHigh) => low === 0 && high === 0 && newHigh === FROZEN),
  ),
  canary(
    'what is taken up does not say so',
    ({ tree }) =>
      new Omitting(tree, (_low, _high, newLow, newHigh) => newLow === 0 && newHigh === UP),
  ),
];
