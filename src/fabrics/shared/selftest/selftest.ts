import { once } from 'node:events';
import { closeSync, ftruncateSync, openSync, unlinkSync } from 'node:fs';
import { join } from 'node:path';
import type { Worker } from 'node:worker_threads';
import { Batch, type Fabric, Scratch } from '../../../verbs/index.ts';
import { startWorker } from '../../start-worker.ts';
import { AREA_BYTES, AT } from './area.ts';
import {
  CHANGES_MIN,
  type Copying,
  type CopyKind,
  type Sums,
  type TearCount,
} from './whole-words.ts';

/** Words of a READ that the fabric copies one by one, and of one that memcpy copies. */
const COPIES = { 'short copies': 8, 'long copies': 256 };
const ADDERS = 3;
/** A control that saw less may have seen it at the one moment at which a thread was interrupted. */
const CONTROL_MIN = 10;

export type Verdict = 'held' | 'violated' | 'inconclusive';

export interface SelftestResult {
  test: string;
  verdict: Verdict;
  /** How often the test saw an outcome that the contract forbids. */
  violations: number;
  /** How often the control, to which nothing is promised, saw the same. */
  control: number;
}

export interface SelftestOptions {
  /** A folder of the file system to be mapped; without it a SharedArrayBuffer is tested. */
  folder?: string | undefined;
  /** Rounds of each litmus test; the other tests scale with it. */
  rounds: number;
  /** How often a test of the order is made again while its control shows nothing. Default 8. */
  attempts?: number;
}

/**
 * Whether this machine keeps what the verbs promise: order, whole words, exact atomics. Results one
 * by one, as they come. Raises SW_UNSUPPORTED where files cannot be mapped, SW_PERMISSION_DENIED
 * where Node may start no threads, and the system's errors about the folder.
 */
export async function* selftest(options: SelftestOptions): AsyncGenerator<SelftestResult> {
  for (const test of LITMUS_TESTS) yield await tryOrder(options, test);
  const control = await tear(options, 'halves', COPIES['short copies'], 100 * options.rounds);
  for (const [name, words] of Object.entries(COPIES)) {
    const { torn, changes } = await tear(options, 'verbs', words, options.rounds);
    // The control ends at its first torn word; the tested reader must have met its writer as well.
    const met = control.torn > 0 && changes >= CHANGES_MIN;
    yield judge(`whole words: ${name}`, torn, met ? changes : 0);
  }
  yield await tryAtomics(options);
}

export function judge(test: string, violations: number, control: number): SelftestResult {
  const proven = control >= CONTROL_MIN ? 'held' : 'inconclusive';
  return { test, verdict: violations > 0 ? 'violated' : proven, violations, control };
}

async function tryOrder(options: SelftestOptions, test: Litmus): Promise<SelftestResult> {
  const { rounds, attempts = 8 } = options;
  const count = async (programs: readonly Program[]) => {
    const tasks = programs.map((program): Task => ({ kind: 'litmus', program, rounds }));
    const [first, second] = (await together(options, tasks)) as Found[];
    return test.forbidden(first, second);
  };
  let [violations, control] = [0, 0];
  // On a busy machine the threads take turns instead of meeting.
  for (let attempt = 0; attempt < attempts && control < CONTROL_MIN; attempt++) {
    violations += await count(test.programs);
    control += await count(test.control);
  }
  return judge(test.name, violations, control);
}

async function tear(
  options: SelftestOptions,
  copy: CopyKind,
  words: number,
  rounds: number,
): Promise<TearCount> {
  const reader: Task = { kind: 'read', copy, words, rounds };
  const [count] = await together(options, [reader, { kind: 'write', copy, words }]);
  return count as TearCount;
}

/** The control adds by READ and WRITE, and loses what others add in between. */
async function tryAtomics(options: SelftestOptions): Promise<SelftestResult> {
  const { rounds } = options;
  const adders = Array<Task>(ADDERS).fill({ kind: 'sum', rounds });
  const sums = (await together(options, adders)) as Sums[];
  // The last adder has seen all additions.
  const most = (way: keyof Sums) => Math.max(...sums.map((sum) => sum[way]));
  const all = ADDERS * rounds;
  const wrong = Math.abs(all - most('added')) + Math.abs(all - most('swapped'));
  return judge('atomics: sums are exact', wrong, all - most('written'));
}

/** Does the tasks at the same time, each in a thread, on memory that is all zero. */
async function together({ folder }: SelftestOptions, tasks: readonly Task[]): Promise<Answer[]> {
  const memory = folder === undefined ? new SharedArrayBuffer(AREA_BYTES) : unnamedFile(folder);
  const signals = new Int32Array(new SharedArrayBuffer(8));
  const threads = tasks.map((task) => {
    const order: Order = { task, memory, signals };
    return startWorker(import.meta.url, 'litmus-thread', order);
  });
  try {
    await Promise.all(threads.map(nextMessage));
    const answers = threads.map(nextMessage);
    Atomics.store(signals, SIGNAL.go, 1);
    Atomics.notify(signals, SIGNAL.go);
    // A writer goes on until the first thread has done its rounds.
    const first = await answers[0];
    Atomics.store(signals, SIGNAL.stop, 1);
    return [first, ...(await Promise.all(answers.slice(1)))];
  } finally {
    await Promise.all(threads.map((thread) => thread.terminate()));
    if (typeof memory === 'number') closeSync(memory);
  }
}

async function nextMessage(thread: Worker): Promise<Answer> {
  const [message] = await Promise.race([once(thread, 'message'), ended(thread)]);
  return message;
}

async function ended(thread: Worker): Promise<never> {
  const [code] = await once(thread, 'exit');
  throw new Error(`a thread of the test ended with ${code}`);
}

/** The threads share the descriptor; the file goes with the last mapping. */
function unnamedFile(folder: string): number {
  const path = join(folder, `stepwell-selftest-${process.pid}`);
  const fd = openSync(path, 'wx+', 0o600);
  unlinkSync(path);
  ftruncateSync(fd, AREA_BYTES);
  return fd;
}

/**
 * One thread's verbs on the words X and Y in a round. W writes the round's number, F adds one
 * (which makes it the round's number, too), R reads; `|` begins another batch.
 */
type Program = readonly ('WX' | 'WY' | 'FX' | 'FY' | 'RX' | 'RY' | '|')[];

/** Values that a thread's READs returned, by round; rounds begin with 1. */
interface Found {
  readonly X: Int32Array;
  readonly Y: Int32Array;
}

interface Litmus {
  readonly name: string;
  readonly programs: readonly [Program, Program];
  readonly control: readonly [Program, Program];
  /** How many rounds had an outcome that the contract forbids. */
  forbidden(first: Found, second: Found): number;
}

/**
 * Litmus tests of the verbs' order on this processor: two threads run short programs against each
 * other, and some outcomes contradict the contract of a batch (`verbs/batch.ts`). Every test has a
 * control, the same verbs in an order of which nothing is promised: unless the control shows the
 * outcome, the threads did not meet and nothing is proven.
 */
export const LITMUS_TESTS: readonly Litmus[] = [
  message('WRITE, WRITE; READ, READ', ['WX', 'WY'], ['RY', 'RX'], ['RX', 'RY']),
  message('batch by batch', ['WX', '|', 'WY'], ['RY', '|', 'RX'], ['RX', '|', 'RY']),
  message('WRITE, FAA; READ, READ', ['WX', 'FY'], ['RY', 'RX'], ['RX', 'RY']),
  message('FAA, WRITE; READ, READ', ['FX', 'WY'], ['RY', 'RX'], ['RX', 'RY']),
  storeBuffer('WRITE, READ', ['WX', 'RY'], ['WY', 'RX']),
  storeBuffer('WRITE, READ, batch by batch', ['WX', '|', 'RY'], ['WY', '|', 'RX']),
  storeBuffer('FAA, READ', ['FX', 'RY'], ['FY', 'RX']),
  loadBuffer('READ, WRITE, batch by batch', ['RY', '|', 'WX'], ['RX', '|', 'WY']),
];

/** X is changed before Y: a reader that sees Y's change and then reads X sees X's change. */
function message(name: string, writer: Program, reader: Program, control: Program): Litmus {
  return {
    name: `message passing: ${name}`,
    programs: [writer, reader],
    control: [writer, control],
    forbidden: (_, { X, Y }) => countRounds(Y, (round) => X[round] < Y[round]),
  };
}

/** Each changes its word, then reads the other's: they cannot both have missed the change. */
function storeBuffer(name: string, first: Program, second: Program): Litmus {
  return {
    name: `store buffer: ${name}`,
    programs: [first, second],
    control: [first.toReversed(), second.toReversed()],
    forbidden: ({ Y }, { X }) => countRounds(Y, (round) => X[Y[round] + 1] < round),
  };
}

/** Each reads the other's word, then changes its own: they cannot both have seen the change. */
function loadBuffer(name: string, first: Program, second: Program): Litmus {
  return {
    name: `load buffer: ${name}`,
    programs: [first, second],
    control: [first.toReversed(), second.toReversed()],
    forbidden: ({ Y }, { X }) => countRounds(Y, (round) => Y[round] > 0 && X[Y[round]] >= round),
  };
}

function countRounds(found: Int32Array, isForbidden: (round: number) => boolean): number {
  let count = 0;
  for (let round = 1; round < found.length; round++) if (isForbidden(round)) count++;
  return count;
}

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

/** What a thread is to do. */
export type Task =
  | { kind: 'litmus'; program: Program; rounds: number }
  | { kind: 'sum'; rounds: number }
  | ({ kind: 'write' } & Copying)
  | ({ kind: 'read'; rounds: number } & Copying);

/** Words of the buffer by which the threads of a test begin and end together. */
export const SIGNAL = { go: 0, stop: 1 } as const;

export interface Order {
  task: Task;
  /** The memory under test: an open file to be mapped, or a buffer. */
  memory: number | SharedArrayBuffer;
  signals: Int32Array;
}

export type Answer = Found | Sums | TearCount | undefined;
