import { Batch, type Operation, Scratch, setWord } from '../../verbs/index.ts';
import { SLOTS_AT } from './geometry.ts';
import { packedNode } from './internal-node.ts';
import { NEIGHBOURS_AT } from './leaf-client.ts';
import { rootLink } from './mend.ts';
import { childAmong } from './node-book.ts';
import {
  isInternal,
  isInUse,
  isTakenUp,
  linkAddress,
  replacementOf,
  type Visit,
  visit,
} from './node-io.ts';
import type { ChimeRequest, ChimeTree } from './tree.ts';

/** A leaf that was read, and the range of its keys. */
export interface SureLeaf {
  leaf: Visit;
  lower: Uint8Array;
  upper: Uint8Array | undefined;
}

const LOWEST = new Uint8Array(0);

/**
 * The leaf that a request goes to, where its own first word does not tell whether it counts,
 * because its parent is taking it up: as long as no node on the way to it has been replaced, nobody
 * has published what it becomes. So the first words of all of them are read behind the leaf.
 *
 *   READ root link -> READ node, for each level -> D[READ first words]
 *
 * Waits for nobody: when it has to begin again, somebody else has got ahead.
 */
export function* sureLeaf(tree: ChimeTree, request: ChimeRequest): Operation<SureLeaf> {
  for (let attempt = 1; ; attempt++) {
    const { nodes, lower, upper } = yield* wayTo(tree, request);
    if (yield* areStill(tree, nodes)) return { leaf: nodes[nodes.length - 1], lower, upper };
    yield* tree.retry(request, 'replacedLeaf', attempt);
  }
}

function* wayTo(
  tree: ChimeTree,
  request: ChimeRequest,
): Operation<{ nodes: Visit[]; lower: Uint8Array; upper: Uint8Array | undefined }> {
  const nodes: Visit[] = [];
  let lower: Uint8Array = LOWEST;
  let upper: Uint8Array | undefined;
  let node = yield* visit(tree, tree.root, yield* rootLink(tree));
  for (let step = 1; ; step++) {
    tree.giveUpAfter(step);
    if (!isInUse(tree, node) && !isTakenUp(node)) {
      node = yield* visit(tree, node.owner, replacementOf(node));
      continue;
    }
    nodes.push(node);
    if (!isInternal(node.high)) return { nodes, lower, upper };
    const { links, separators } = packedNode(node.image);
    const child = childAmong(separators, request);
    if (child > 0) lower = separators.at(child - 1);
    if (child < separators.length) upper = separators.at(child);
    const link = { low: links[2 * child], high: links[2 * child + 1] };
    node = yield* visit(tree, linkAddress(node.address, child), link);
  }
}

/** Whether none of the nodes has been replaced by now. */
function* areStill(tree: ChimeTree, nodes: readonly Visit[]): Operation<boolean> {
  const batch = new Batch();
  const words = new Scratch(8 * nodes.length);
  nodes.forEach(({ address }, i) => {
    batch.read(address, 8, words, 8 * i);
  });
  yield batch;
  return nodes.every((node, i) => {
    setWord(node.image, 0, words.i32[2 * i], words.i32[2 * i + 1]);
    return isInUse(tree, node) || isTakenUp(node);
  });
}

/** The request's neighbourhood as it stands in a leaf that was read. */
export function adoptLeaf(tree: ChimeTree, request: ChimeRequest, { leaf }: SureLeaf): void {
  const { span, neighbourhood } = tree.geometry.shape;
  for (let i = 0; i < neighbourhood; i++) {
    const from = (SLOTS_AT >> 2) + 2 * ((request.home + i) % span);
    const low = leaf.image.i32[from];
    setWord(request.words, NEIGHBOURS_AT + 8 * i, low, leaf.image.i32[from + 1]);
  }
  request.leafLow = leaf.low;
  request.leafHigh = leaf.high;
  request.leaf = leaf.address;
}
