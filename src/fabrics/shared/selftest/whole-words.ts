import { Batch, Scratch, swapped } from '../../../verbs/index.ts';
import type { SharedFabric } from '../shared-fabric.ts';
import { AT } from './area.ts';

const ROUNDS_BETWEEN_LOOKS = 1000;
/** With fewer changes seen, writer and reader hardly ran at the same time. */
export const CHANGES_MIN = 1000;

/** How words are copied: by verbs, or by halves, which must be seen to tear. */
export type CopyKind = 'verbs' | 'halves';

export interface Copying {
  copy: CopyKind;
  words: number;
}

export interface TearCount {
  torn: number;
  /** How often the reader saw other words than the time before. */
  changes: number;
}

/** Last values of three words to which a thread adds: by FAA, by CAS, and by READ and WRITE. */
export interface Sums {
  added: number;
  swapped: number;
  written: number;
}

/** Adds 1 to each of three words, `rounds` times. */
export function addUp(fabric: SharedFabric, rounds: number): Sums {
  const local = new Scratch(256);
  const add = new Batch().faa(AT.added, local, 0);
  const look = new Batch().read(AT.swapped, 8, local, 64);
  const swap = new Batch().cas(AT.swapped, local, 64);
  const read = new Batch().read(AT.written, 8, local, 128);
  const write = new Batch().write(AT.written, 8, local, 128);
  local.i64[0] = 1n;
  for (let round = 0; round < rounds; round++) {
    fabric.execute(add);
    do {
      fabric.execute(look);
      local.i64[9] = local.i64[8] + 1n;
      fabric.execute(swap);
    } while (!swapped(local, 64));
    fabric.execute(read);
    local.i64[16]++;
    fabric.execute(write);
  }
  const [added, last, written] = [local.i64[1] + 1n, local.i64[9], local.i64[16]];
  return { added: Number(added), swapped: Number(last), written: Number(written) };
}

/**
 * The high half of a word is the low one's complement. The values are NaNs too, signalling ones
 * among them: a copy that changed their bits would show as a torn word.
 */
export function writeWords(
  fabric: SharedFabric,
  { copy, words }: Copying,
  isStopped: () => boolean,
): undefined {
  const local = new Scratch(words * 8);
  const { i32 } = fabric.region(0);
  const batch = new Batch().write(AT.torn, words * 8, local, 0);
  for (let round = 0; round % ROUNDS_BETWEEN_LOOKS !== 0 || !isStopped(); round++) {
    const low = lowHalfOf(round);
    for (let i = 0; i < words; i++) {
      local.i32[2 * i] = low;
      local.i32[2 * i + 1] = ~low;
    }
    if (copy === 'halves') copyHalves(local.i32, 0, i32, AT.torn >>> 2, 2 * words);
    else fabric.execute(batch);
  }
}

function lowHalfOf(round: number): number {
  const choices = [0x0000_0000, 0x800f_fffe, 0x0008_0000, 0x5555_5555, 0x000f_ffff, round];
  return choices[round % choices.length] | 0;
}

export function readWords(
  fabric: SharedFabric,
  { copy, words, rounds }: Copying & { rounds: number },
): TearCount {
  const local = new Scratch(words * 8);
  const { i32 } = fabric.region(0);
  const batch = new Batch().read(AT.torn, words * 8, local, 0);
  let torn = 0;
  let changes = 0;
  let last = 0;
  // On a busy machine the two may take turns instead of running together: then it takes longer.
  for (let round = 0; round < rounds || (changes < CHANGES_MIN && round < 10 * rounds); round++) {
    if (copy === 'halves') copyHalves(i32, AT.torn >>> 2, local.i32, 0, 2 * words);
    else fabric.execute(batch);
    torn += tornWords(local, words);
    if (local.i32[0] !== last) changes++;
    last = local.i32[0];
    // The control has shown what it must show.
    if (copy === 'halves' && torn > 0) break;
  }
  return { torn, changes };
}

/** Before the first write both halves are 0. */
function tornWords({ i32 }: Scratch, words: number): number {
  let torn = 0;
  for (let i = 0; i < words; i++) {
    const low = i32[2 * i];
    const high = i32[2 * i + 1];
    if (high !== ~low && (low !== 0 || high !== 0)) torn++;
  }
  return torn;
}

function copyHalves(from: Int32Array, first: number, to: Int32Array, into: number, count: number) {
  for (let i = 0; i < count; i++) to[into + i] = from[first + i];
}
