import { ChimeIndex } from '../../src/indexes/chime/chime.ts';
import { reach, refresh } from '../../src/indexes/chime/descent.ts';
import { SLOTS_AT } from '../../src/indexes/chime/geometry.ts';
import {
  type ChimeRequest,
  IDENTITY_AT,
  NEIGHBOURS_AT,
} from '../../src/indexes/chime/leaf-client.ts';
import { CURRENT, judge, place, postNeighbourhood } from '../../src/indexes/chime/neighbourhood.ts';
import { settle } from '../../src/indexes/chime/settle.ts';
import type { ChimeTree } from '../../src/indexes/chime/tree.ts';
import { type Operation, Scratch, setWord } from '../../src/verbs/index.ts';

/** How a search without the tree's techniques reads a leaf. */
export interface PlainReads {
  /** All of it, as a B+ tree does (Sherman); else the neighbourhood of the key. */
  whole: boolean;
  /** Its first word in a round trip of its own, as metadata that are not next to the entries. */
  apart: boolean;
}

/**
 * A double of the tree, for the comparison only: it reads leaves as the steps of the paper's factor
 * analysis do before CHIME's techniques are added (Figure 15a), always with the metadata.
 */
export class PlainlyReadTree extends ChimeIndex {
  readonly #reads: PlainReads;

  constructor(tree: ChimeTree, reads: PlainReads) {
    super(tree);
    this.#reads = reads;
  }

  override *search(request: ChimeRequest): Operation<boolean> {
    const { tree } = this;
    tree.cache.begin();
    place(tree, request);
    for (let attempt = 1; ; attempt++) {
      yield* reach(tree, request);
      yield* this.#read(request);
      request.checked = true;
      if (judge(tree, request) === CURRENT) return yield* settle(tree, request);
      yield* tree.retry(request, 'staleCache', attempt);
      yield* refresh(tree, request);
    }
  }

  *#read(request: ChimeRequest): Operation<void> {
    const { tree } = this;
    const { whole, apart } = this.#reads;
    const { batch, leaf, words } = request;
    const { leafBytes } = tree.geometry;
    const image = new Scratch(leafBytes);
    if (whole) batch.clear().read(leaf, leafBytes, image, 0);
    else postNeighbourhood(tree, request, batch.clear(), !apart);
    if (whole && !apart) batch.read(leaf, 8, words, IDENTITY_AT);
    yield batch;
    if (whole) copyNeighbourhood(tree, request, image);
    if (apart) yield batch.clear().read(leaf, 8, words, IDENTITY_AT);
  }
}

function copyNeighbourhood(tree: ChimeTree, { words, home }: ChimeRequest, image: Scratch): void {
  const { span, neighbourhood } = tree.geometry.shape;
  for (let i = 0; i < neighbourhood; i++) {
    const from = (SLOTS_AT >> 2) + 2 * ((home + i) % span);
    setWord(words, NEIGHBOURS_AT + 8 * i, image.i32[from], image.i32[from + 1]);
  }
}
