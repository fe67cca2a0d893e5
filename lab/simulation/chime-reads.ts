import { ChimeIndex } from '../../src/indexes/chime/chime.ts';
import type { ChimeTree } from '../../src/indexes/chime/tree.ts';
import { OWNED } from '../../src/indexes/substrates/leaf/leaf-client.ts';
import type { LeafRequest } from '../../src/indexes/substrates/leaf/leaf-request.ts';
import {
  isLeafStill,
  isStill,
  lookAtCandidates,
  lookInNeighbourhood,
  postBracket,
  postEntries,
  postHeader,
  prepare,
} from '../../src/indexes/substrates/leaf/read-leaf.ts';
import { lookAgain } from '../../src/indexes/substrates/leaf/search-leaf.ts';
import type { Operation } from '../../src/verbs/index.ts';

/** How a search without the tree's techniques reads a leaf. */
export interface PlainReads {
  /** Reads the whole leaf, as a B+ tree does (Sherman); otherwise only the key's neighbourhood. */
  whole: boolean;
  /** Reads the header in a round trip of its own, as if it were not next to the entries. */
  apart: boolean;
}

/**
 * A test double of the tree, for comparison only. It reads leaves as the first steps of the paper's
 * factor analysis do (Figure 15a), before CHIME's techniques are added. It always reads the header.
 */
export class PlainlyReadTree extends ChimeIndex {
  readonly #reads: PlainReads;

  constructor(tree: ChimeTree, reads: PlainReads) {
    super(tree);
    this.#reads = reads;
  }

  override *search(request: LeafRequest): Operation<boolean> {
    const { tree } = this;
    prepare(tree, request);
    yield* tree.begin(request as Parameters<typeof tree.begin>[0]);
    for (let attempt = 1; ; attempt++) {
      request.readsBounds = true;
      yield* this.#read(request);
      if (lookInNeighbourhood(tree, request)) return true;
      if (request.candidates.count > 0 && (yield* lookAtCandidates(request))) return true;
      const isOwn = isLeafStill(request) && isStill(request);
      if (isOwn && tree.owns(request as Parameters<typeof tree.owns>[0]) === OWNED) return false;
      yield* lookAgain(tree, request, attempt);
    }
  }

  *#read(request: LeafRequest): Operation<void> {
    const { tree } = this;
    const { span, neighbourhood } = tree.geometry.shape;
    const { whole, apart } = this.#reads;
    const [first, count] = whole ? [0, span] : [request.home, neighbourhood];
    const batch = request.batch.clear();
    if (!apart) {
      yield postBracket(tree, request, first, count, batch);
      return;
    }
    yield postEntries(tree, request, first, count, batch);
    yield postHeader(request, batch.clear());
  }
}
