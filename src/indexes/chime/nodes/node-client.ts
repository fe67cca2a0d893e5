import type { Reclamation } from '../../../pool/clients/reclamation.ts';
import type { Allocator } from '../../../pool/memory/allocator.ts';
import { type Address, Batch, CAS_BYTES, type Operation, Scratch } from '../../../verbs/index.ts';
import type { FreeList } from '../../substrates/free-list.ts';
import type { NodeCache } from './cache.ts';
import type { Link } from './link.ts';
import type { PendingCuts } from './pending-cuts.ts';

const SWAPS = 64;
const IMAGE_BYTES = 4096;

/** Local memory for one step of a split, merge or rebuild. A `FreeList` keeps it for the next. */
export class StepMemory {
  readonly batch = new Batch();
  /** Words of many CAS. */
  readonly swaps = new Scratch(CAS_BYTES * SWAPS);
  /** Images of nodes to write. */
  readonly images = new Scratch(IMAGE_BYTES);
}

/** A leaf's next leaf, and the upper bound of its keys, as its header says. */
export interface LeafBounds {
  /** The next leaf; undefined for the last one. */
  sibling: Link | undefined;
  /** The lowest key that is above all of the leaf; undefined for the last one. */
  pivot: Uint8Array | undefined;
}

/** The part of a client's handle of the tree that internal nodes use. */
export interface NodeClient {
  readonly geometry: {
    readonly shape: { readonly fanout: number; readonly seed: number };
    readonly leafUnits: number;
  };
  /** Where the root link stands. */
  readonly root: Address;
  readonly catalog: number;
  readonly allocator: Allocator;
  readonly reclamation: Reclamation;
  readonly cache: NodeCache;
  readonly stepMemories: FreeList<StepMemory>;
  readonly cuts: PendingCuts;
  /** Internal nodes that this client has rebuilt. */
  rebuilds: number;
  /** Bounds loops: raises SW_CONTENTION after too many rounds. */
  giveUpAfter(round: number): void;
  /** The bounds of a leaf as they were at one moment; undefined when it was merged. */
  readBounds(leaf: Link): Operation<LeafBounds | undefined>;
  /**
   * Whether a leaf that a node in use links was merged into the one before it, and the merge is
   * complete. Only then may its block be retired.
   */
  isMerged(leaf: Link): Operation<boolean>;
}
