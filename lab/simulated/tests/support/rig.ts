import { Batch, type Operation, Scratch, TrafficCounters } from '../../../../src/verbs/index.ts';
import type { Ended } from '../../client-thread.ts';
import type { LocalModel } from '../../local-door.ts';
import { SimulatedMemory } from '../../memory.ts';
import { CONNECTX5, type NetworkModel } from '../../model.ts';
import { type Place, SimulatedNetwork } from '../../network.ts';

export const REGION_BYTES = 2 ** 20;

export interface RigOptions {
  model?: Partial<NetworkModel>;
  memoryNodes?: number;
  computeNodes?: number;
  seed?: number;
  acrossNodes?: 'ordered' | 'unordered';
  memory?: SimulatedMemory;
  local?: LocalModel;
}

export function newMemory(nodes = 1): SimulatedMemory {
  return new SimulatedMemory({ regions: nodes, regionBytes: REGION_BYTES, nodes });
}

export function newNetwork(options: RigOptions = {}): SimulatedNetwork {
  const { model, memoryNodes = 1, computeNodes = 1, seed = 1, acrossNodes } = options;
  return new SimulatedNetwork({
    model: { ...CONNECTX5, ...model },
    memory: options.memory ?? newMemory(memoryNodes),
    computeNodes,
    seed,
    acrossNodes,
    ...(options.local && { local: options.local }),
  });
}

/** Keeps every coroutine of a new thread busy with operations until there is no other one. */
export function addLoop(
  network: SimulatedNetwork,
  place: Place,
  coroutines: number,
  next: (coroutine: number) => Operation<unknown> | undefined,
): Ended[] {
  const ended: Ended[] = [];
  const begin = (coroutine: number) => {
    const operation = next(coroutine);
    if (operation !== undefined) thread.start(coroutine, operation);
  };
  const thread = network.addThread(place, coroutines, new TrafficCounters(), (end) => {
    ended.push(end);
    begin(end.coroutine);
  });
  for (let coroutine = 0; coroutine < coroutines; coroutine++) begin(coroutine);
  return ended;
}

/** One round trip of one verb, with memory of its own. */
export function* single(post: (batch: Batch, scratch: Scratch) => void, bytes = 64) {
  const batch = new Batch();
  const scratch = new Scratch(bytes);
  post(batch, scratch);
  yield batch;
  return scratch;
}

/** Operations that end within the time, a second, when each coroutine begins the next at once. */
export function rateOf(network: SimulatedNetwork, ended: readonly Ended[][], ns: number): number {
  // The first half of the time is for queues to fill.
  network.run(ns / 2);
  const before = ended.reduce((sum, { length }) => sum + length, 0);
  network.beginMeasurement();
  network.run(ns);
  const after = ended.reduce((sum, { length }) => sum + length, 0);
  return ((after - before) * 1e9) / (ns / 2);
}
