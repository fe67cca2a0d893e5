import { parentPort, workerData } from 'node:worker_threads';
import { loadLibc } from '../libc.ts';
import { MemorySource } from '../memory-source.ts';
import { Region, type RegionSource } from '../region.ts';
import { SharedFabric } from '../shared-fabric.ts';
import { AREA_BYTES } from './area.ts';
import { type Answer, type Order, play, SIGNAL, type Task } from './selftest.ts';
import { addUp, readWords, writeWords } from './whole-words.ts';

const { task, memory, signals } = workerData as Order;
const fabric = new SharedFabric(sourceOf(memory));

parentPort?.postMessage('ready');
Atomics.wait(signals, SIGNAL.go, 0);
parentPort?.postMessage(answer(task));

/** Each thread maps the file itself, as processes do. */
function sourceOf(where: number | SharedArrayBuffer): RegionSource {
  if (typeof where !== 'number') return new MemorySource([where]);
  const only = new Region(loadLibc().mapShared(where, 0, AREA_BYTES).memory);
  const nothing = () => {};
  const rest = {
    extend: nothing,
    reserve: nothing,
    hugePages: () => false,
    close: nothing,
    remedy: () => '',
  };
  return { path: '', map: () => only, ...rest };
}

function answer(asked: Task): Answer {
  switch (asked.kind) {
    case 'litmus':
      return play(fabric, asked.program, asked.rounds);
    case 'sum':
      return addUp(fabric, asked.rounds);
    case 'write':
      return writeWords(fabric, asked, () => Atomics.load(signals, SIGNAL.stop) !== 0);
    case 'read':
      return readWords(fabric, asked);
  }
}
