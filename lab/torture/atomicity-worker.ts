import type { Region, RegionSource } from '../../src/fabrics/shared/region.ts';
import { SharedFabric } from '../../src/fabrics/shared/shared-fabric.ts';
import { Batch, Scratch, swapped } from '../../src/verbs/index.ts';
import {
  AT,
  CHANGES_MIN,
  type CopyKind,
  type LitmusAnswer,
  type LitmusOrder,
  LONG_WORDS,
  mapArea,
  TORN_WORDS,
} from './atomicity.ts';

const STARTED_WITHIN_MS = 60_000;
const ROUNDS_BETWEEN_LOOKS = 1000;

const order = JSON.parse(process.argv[2]) as LitmusOrder;
const { mapping, region } = mapArea(order.path, order.offset);
await begin();
const answer = order.role === 'sum' ? addUp(order.operations) : tear(order);
process.stdout.write(JSON.stringify(answer));
// The mapping must stay reachable as long as its views are used.
if (mapping.memory.byteLength === 0) throw new Error('the mapping is gone');

async function begin(): Promise<void> {
  Atomics.add(region.i32, AT.ready >>> 2, 1);
  const until = Date.now() + STARTED_WITHIN_MS;
  while (Atomics.load(region.i32, AT.go >>> 2) === 0) {
    if (Date.now() > until) throw new Error('nobody said go');
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

function addUp(operations: number): LitmusAnswer {
  const { i64, i32 } = region;
  const fabric = new SharedFabric(sourceOf(region));
  const words = new Scratch(64);
  for (let i = 0; i < operations; i++) {
    Atomics.add(i64, AT.add64 >>> 3, 1n);
    Atomics.add(i32, AT.add32 >>> 2, 1);
    for (;;) {
      const old = Atomics.load(i64, AT.swap64 >>> 3);
      if (Atomics.compareExchange(i64, AT.swap64 >>> 3, old, old + 1n) === old) break;
    }
    for (;;) {
      const old = Atomics.load(i32, AT.swap32 >>> 2);
      if (Atomics.compareExchange(i32, AT.swap32 >>> 2, old, old + 1) === old) break;
    }
    addByVerbs(fabric, words);
  }
  return { torn: 0, rounds: operations, changes: 0 };
}

function addByVerbs(fabric: SharedFabric, words: Scratch): void {
  words.i64[0] = 1n;
  fabric.execute(new Batch().faa(AT.verbAdd, words, 0));
  for (;;) {
    fabric.execute(new Batch().read(AT.verbSwap, 8, words, 0));
    words.i64[1] = words.i64[0] + 1n;
    fabric.execute(new Batch().cas(AT.verbSwap, words, 0));
    if (swapped(words, 0)) return;
  }
}

function sourceOf(only: Region): RegionSource {
  return {
    path: '',
    map: () => only,
    extend: () => {},
    reserve: () => {},
    hugePages: () => false,
    close: () => {},
  };
}

function tear(task: Extract<LitmusOrder, { copy: CopyKind }>): LitmusAnswer {
  const count = task.copy === 'memcpy' ? LONG_WORDS : TORN_WORDS;
  return task.role === 'write'
    ? writeWords(task.copy, count)
    : readWords(task.copy, count, task.rounds);
}

/**
 * The high half of a word is the low one's complement. The values are NaNs too, signalling ones
 * among them: a copy that changed their bits would show as a torn word.
 */
function writeWords(copy: CopyKind, count: number): LitmusAnswer {
  const fabric = new SharedFabric(sourceOf(region));
  const local = new Scratch(count * 8);
  const batch = new Batch().write(AT.torn, count * 8, local, 0);
  let rounds = 0;
  for (; rounds % ROUNDS_BETWEEN_LOOKS !== 0 || !stopped(); rounds++) {
    const low = lowHalfOf(rounds);
    for (let i = 0; i < count; i++) {
      local.i32[2 * i] = low;
      local.i32[2 * i + 1] = ~low;
    }
    if (copy === 'int32') copyInt32(local.i32, 0, region.i32, AT.torn >>> 2, 2 * count);
    else fabric.execute(batch);
  }
  return { torn: 0, rounds, changes: 0 };
}

function lowHalfOf(round: number): number {
  const choices = [0x0000_0000, 0x800f_fffe, 0x0008_0000, 0x5555_5555, 0x000f_ffff, round];
  return choices[round % choices.length] | 0;
}

function readWords(copy: CopyKind, count: number, rounds: number): LitmusAnswer {
  const fabric = new SharedFabric(sourceOf(region));
  const local = new Scratch(count * 8);
  const batch = new Batch().read(AT.torn, count * 8, local, 0);
  let torn = 0;
  let changes = 0;
  let last = 0;
  // On a busy machine the two may take turns instead of running together: then it takes longer.
  for (let round = 0; round < rounds || (changes < CHANGES_MIN && round < 10 * rounds); round++) {
    if (copy === 'int32') copyInt32(region.i32, AT.torn >>> 2, local.i32, 0, 2 * count);
    else fabric.execute(batch);
    for (let i = 0; i < count; i++) {
      const low = local.i32[2 * i];
      const high = local.i32[2 * i + 1];
      // Before the first write both halves are 0.
      if (high !== ~low && (low !== 0 || high !== 0)) torn++;
    }
    if (local.i32[0] !== last) changes++;
    last = local.i32[0];
    // The control has shown what it must show.
    if (copy === 'int32' && torn > 0) return { torn, rounds: round + 1, changes };
  }
  return { torn, rounds, changes };
}

function copyInt32(from: Int32Array, first: number, to: Int32Array, into: number, count: number) {
  for (let i = 0; i < count; i++) to[into + i] = from[first + i];
}

function stopped(): boolean {
  return Atomics.load(region.i32, AT.stop >>> 2) !== 0;
}
