import { AWAIT, type Batch, CAS, FAA, READ, WRITE } from '../../src/verbs/index.ts';
import type { SimulatedMemory } from './memory.ts';
import { type NetworkModel, SHARED_MEMORY } from './model.ts';
import type { MemoryNode } from './nodes.ts';

/** CPU cost of loads, stores and atomics on a memory node's machine; see NetworkModel. */
export interface LocalModel
  extends Pick<
    NetworkModel,
    'roundTripNs' | 'readWindowNs' | 'writeWindowNs' | 'wordNs' | 'verbNs'
  > {
  /**
   * With 'coherent', the CPU's atomics and the NIC's are atomic with each other, which a device has
   * to promise (verbs: IBV_ATOMIC_GLOB). With 'loopback' they are not (IBV_ATOMIC_HCA): this
   * thread's atomics go through the NIC too, over a queue pair to its own machine. Only its READs
   * and WRITEs are then loads and stores.
   */
  readonly atomics: 'coherent' | 'loopback';
}

/** Costs as measured between processes that share memory; the device promises IBV_ATOMIC_GLOB. */
export const SHARED_WITH_NIC: LocalModel = { ...SHARED_MEMORY, atomics: 'coherent' };

/** How one thread on the machine of a memory node reaches that node's memory without the NIC. */
export class LocalDoor {
  readonly node: MemoryNode;
  readonly model: LocalModel;
  readonly #memory: SimulatedMemory;
  /** Time until a verb reaches the memory, and again until the thread has its result. */
  readonly oneWayNs: number;
  /** When this thread's latest verb touches its last line. */
  doneAt = 0;

  constructor(node: MemoryNode, memory: SimulatedMemory, model: LocalModel) {
    this.node = node;
    this.model = model;
    this.#memory = memory;
    this.oneWayNs = model.roundTripNs / 2;
  }

  /** Whether the CPU executes the verb; otherwise a NIC does, even if on this node. */
  leadsTo({ kind, address }: Batch, row: number): boolean {
    if (this.#memory.nodeOf(address[row]) !== this.node.id) return false;
    if (kind[row] === READ || kind[row] === WRITE || kind[row] === AWAIT) return true;
    const isAtomic = kind[row] === CAS || kind[row] === FAA;
    return isAtomic && this.model.atomics === 'coherent';
  }
}
