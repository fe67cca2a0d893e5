import { Batch, type Fabric, Scratch } from '../../../verbs/index.ts';
import { AT } from './area.ts';
import type { Found, Program } from './litmus.ts';

/** Local words: what W writes, what F adds and found, what R of X and of Y finds. */
const LOCAL = { round: 0, add: 8, X: 64, Y: 128 } as const;

/** Does the program's verbs `rounds` times; returns what its READs found in each. */
export function play(fabric: Fabric, program: Program, rounds: number): Found {
  const local = new Scratch(192);
  const batches = batchesOf(program, local);
  const X = new Int32Array(rounds + 1);
  const Y = new Int32Array(rounds + 1);
  local.i64[LOCAL.add >> 3] = 1n;
  for (let round = 1; round <= rounds; round++) {
    local.i32[LOCAL.round >> 2] = round;
    for (const batch of batches) fabric.execute(batch);
    X[round] = local.i32[LOCAL.X >> 2];
    Y[round] = local.i32[LOCAL.Y >> 2];
  }
  return { X, Y };
}

function batchesOf(program: Program, local: Scratch): Batch[] {
  const batches = [new Batch()];
  for (const verb of program) {
    const word = verb.endsWith('X') ? 'X' : 'Y';
    const batch = batches[batches.length - 1];
    if (verb === '|') batches.push(new Batch());
    else if (verb.startsWith('W')) batch.write(AT[word], 8, local, LOCAL.round);
    else if (verb.startsWith('F')) batch.faa(AT[word], local, LOCAL.add);
    else batch.read(AT[word], 8, local, LOCAL[word]);
  }
  return batches;
}
