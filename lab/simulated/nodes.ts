import type { Address } from '../../src/verbs/index.ts';
import type { NetworkModel } from './model.ts';
import { Server, ServerGroup } from './server.ts';

/** A NIC: what it processes of messages, and both directions of its link. */
export class Nic {
  readonly messages = new Server();
  readonly inbound = new Server();
  readonly outbound = new Server();

  clear(): void {
    for (const server of [this.messages, this.inbound, this.outbound]) server.busyNs = 0;
  }
}

/** NICs lock words by a hash of their addresses; a simulation needs no more than they have. */
const WORD_LOCKS = 4096;

export class MemoryNode {
  readonly id: number;
  readonly nic = new Nic();
  readonly atomics = new Server();
  readonly cores: ServerGroup;
  /** By hash of the address: when the word is free again. */
  readonly #wordFreeAt = new Float64Array(WORD_LOCKS);

  constructor(id: number, model: NetworkModel) {
    this.id = id;
    this.cores = new ServerGroup(model.callCores);
  }

  /** When the word can be had from `now` on; it is locked for `lockNs` from then on. */
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

/** One client's connection to one memory node, with the ends of what was executed on it so far. */
export class QueuePair {
  /** When the last line of a READ or an atomic has been, and of a WRITE. */
  readDone = 0;
  writeDone = 0;
}
