import {
  type Address,
  AWAIT,
  type Batch,
  CALL,
  CAS,
  FAA,
  type Fabric,
  PAUSE,
  READ,
  TrafficCounters,
  WRITE,
} from '../../src/verbs/index.ts';
import type { SimulatedMemory } from './memory.ts';
import { countBatch } from './traffic.ts';

/**
 * Executes verbs on the simulated memory in no virtual time: for everything before the clock starts
 * (creating a pool, joining, loading). Each client has one. Its counters also count the verbs that
 * the client runs in virtual time.
 */
export class SimulatedFabric implements Fabric {
  readonly traffic = new TrafficCounters();
  readonly memory: SimulatedMemory;

  constructor(memory: SimulatedMemory) {
    this.memory = memory;
  }

  execute(batch: Batch): void {
    countBatch(this.traffic, batch);
    for (let row = 0; row < batch.length; row++) this.#perform(batch, row);
  }

  window(address: Address, bytes: number): Uint8Array {
    return this.memory.window(address, bytes);
  }

  #perform(batch: Batch, row: number): void {
    const { memory } = this;
    const kind = batch.kind[row];
    if (kind === PAUSE || kind === AWAIT) return;
    const address = batch.address[row];
    const bytes = batch.bytes[row];
    const scratch = batch.scratch[row];
    const local = batch.offset[row];
    memory.check(address, bytes);
    if (kind === READ) memory.read(address, bytes, scratch, local);
    else if (kind === WRITE) memory.write(address, bytes, scratch, local);
    else if (kind === CAS) memory.compareAndSwap(address, scratch, local);
    else if (kind === FAA) memory.fetchAndAdd(address, scratch, local);
    else if (kind === CALL) memory.handlers[memory.nodeOf(address)]?.(scratch, local);
  }
}
