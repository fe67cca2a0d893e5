import type { Address, Operation } from '../../../verbs/index.ts';
import { eachIndirect } from '../../substrates/leaf/picture.ts';
import type { PartOrder, Parts } from '../../traversal/parts.ts';
import { addressOfLink } from '../nodes/link.ts';
import type { ChimeTree } from '../tree.ts';
import { eachLeaf } from './leaf-chain.ts';
import { NodeWalk } from './nodes-of.ts';

/**
 * For sweeps: a leaf as its parent has it, with the siblings that the parent lacks and the internal
 * nodes before it; also what has been replaced and is not unlinked yet, which some client will
 * retire.
 */
export class ChimeParts implements Parts, PartOrder {
  readonly order: PartOrder = this;
  readonly cursor = 0;
  done = false;
  readonly #tree: ChimeTree;
  #nodes: NodeWalk | undefined;
  readonly #blocks: Address[] = [];
  readonly #records: { address: Address; units: number }[] = [];

  constructor(tree: ChimeTree) {
    this.#tree = tree;
  }

  *read(): Operation<void> {
    const tree = this.#tree;
    const [blocks, records] = [this.#blocks, this.#records];
    blocks.length = 0;
    records.length = 0;
    this.#nodes ??= yield* NodeWalk.begin(tree);
    const leaf = yield* this.#nodes.nextLeaf(({ low, high }) => {
      blocks.push(addressOfLink(low, high));
    });
    if (leaf === undefined) {
      this.done = true;
      return;
    }
    yield* eachLeaf(tree, leaf, {
      block: (address) => blocks.push(address),
      problem: () => {},
      *leaf(picture) {
        eachIndirect(tree, picture, (address, units) => records.push({ address, units }));
      },
    });
  }

  pass(): void {}

  eachSlot(visit: (record: Address, units: number, isClaim: boolean) => void): void {
    for (const { address, units } of this.#records) visit(address, units, false);
  }

  eachBlock(visit: (address: Address) => void): void {
    for (const block of this.#blocks) visit(block);
  }

  // biome-ignore lint/correctness/useYield: the root stays where it is
  *eachOtherBlock(visit: (address: Address) => void): Operation<void> {
    visit(this.#tree.root);
  }
}
