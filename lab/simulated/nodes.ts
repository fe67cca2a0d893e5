import type { Address } from '../../src/verbs/index.ts';
import type { NetworkModel } from './model.ts';
import { Server, ServerGroup } from './server.ts';

/** A NIC: its message processing and both directions of its link. */
export class Nic {
  readonly messages = new Server();
  readonly inbound = new Server();
  readonly outbound = new Server();

  clear(): void {
    for (const server of [this.messages, this.inbound, this.outbound]) server.busyNs = 0;
  }
}

/** NICs lock words by a hash of the address; this many locks, as on a real device. */
const WORD_LOCKS = 4096;

export class MemoryNode {
  readonly id: number;
  readonly nic = new Nic();
  readonly atomics = new Server();
  readonly cores: ServerGroup;
  /** By hash of the address: when the word is unlocked. */
  readonly #wordFreeAt = new Float64Array(WORD_LOCKS);

  constructor(id: number, model: NetworkModel) {
    this.id = id;
    this.cores = new ServerGroup(model.callCores);
  }

  /** Locks the word for `lockNs`, as soon as it is free; returns when that is. */
  lockWord(address: Address, now: number, lockNs: number): number {
    const lock = (Math.imul(address / 8, 0x9e3779b1) >>> 20) & (WORD_LOCKS - 1);
    const start = Math.max(now, this.#wordFreeAt[lock]);
    this.#wordFreeAt[lock] = start + lockNs;
    return start;
  }

  clear(): void {
    this.nic.clear();
    this.atomics.busyNs = 0;
    this.cores.clear();
  }
}

/** One client's connection to one memory node, and when the verbs posted on it so far end. */
export class QueuePair {
  /** When the last READ or atomic touches its last line, and when the last WRITE does. */
  readDone = 0;
  writeDone = 0;
}
