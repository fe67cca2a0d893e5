/**
 * Whether this machine keeps what the verbs promise on mapped memory, between processes: atomics
 * are exact, and a copy by Float64 elements never tears a word. After Garnet's LightEpochLitmus the
 * detector must first be seen to fire: a copy by Int32 elements does tear.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { loadLibc, type Mapping } from '../../src/fabrics/shared/libc.ts';
import { Region } from '../../src/fabrics/shared/region.ts';

export const LITMUS_BYTES = 64 * 1024;
/** Byte offsets of the words that are tested, each on a line of its own. */
export const AT = {
  go: 0,
  stop: 64,
  ready: 128,
  add64: 192,
  swap64: 256,
  add32: 320,
  swap32: 384,
  verbAdd: 448,
  verbSwap: 512,
  torn: 4096,
} as const;
export const TORN_WORDS = 8;
/** So long a READ that the fabric copies it by memcpy. */
export const LONG_WORDS = 256;

export type CopyKind = 'float64' | 'int32' | 'memcpy';
export type LitmusOrder =
  | { role: 'sum'; path: string; offset: number; operations: number }
  | { role: 'write' | 'read'; path: string; offset: number; rounds: number; copy: CopyKind };

export interface LitmusAnswer {
  torn: number;
  rounds: number;
  /** How often the reader saw other words than the time before. */
  changes: number;
}

/** With fewer changes seen, writer and reader hardly ran at the same time. */
export const CHANGES_MIN = 1000;

export type Litmus = 'held' | 'violated' | 'inconclusive';

/** The litmus area of a pool file: a part of it that the pool does not use. */
export function mapArea(path: string, offset: number): { mapping: Mapping; region: Region } {
  const fd = openSync(path, 'r+');
  try {
    const mapping = loadLibc().mapShared(fd, offset, LITMUS_BYTES);
    return { mapping, region: new Region(mapping.memory) };
  } finally {
    closeSync(fd);
  }
}

/** Every process adds `operations` to each word in each way; returns what the words then hold. */
export async function sumLitmus(
  path: string,
  offset: number,
  processes: number,
  operations: number,
): Promise<Record<'add64' | 'swap64' | 'add32' | 'swap32' | 'verbAdd' | 'verbSwap', number>> {
  const { region } = mapArea(path, offset);
  const order: LitmusOrder = { role: 'sum', path, offset, operations };
  await withChildren(Array(processes).fill(order), region, async (answers) => {
    await Promise.all(answers);
  });
  const word = (at: number) => Number(Atomics.load(region.i64, at >>> 3));
  return {
    add64: word(AT.add64),
    swap64: word(AT.swap64),
    add32: Atomics.load(region.i32, AT.add32 >>> 2),
    swap32: Atomics.load(region.i32, AT.swap32 >>> 2),
    verbAdd: word(AT.verbAdd),
    verbSwap: word(AT.verbSwap),
  };
}

/** One process writes words whose halves belong together, another reads them. */
export async function tearLitmus(
  path: string,
  offset: number,
  copy: CopyKind,
  rounds: number,
): Promise<LitmusAnswer> {
  const { region } = mapArea(path, offset);
  region.u8.fill(0);
  const orders: LitmusOrder[] = [
    { role: 'read', path, offset, rounds, copy },
    { role: 'write', path, offset, rounds, copy },
  ];
  return await withChildren(orders, region, async ([read, write]) => {
    const answer = await read;
    Atomics.store(region.i32, AT.stop >>> 2, 1);
    await write;
    return answer;
  });
}

/** The verdict: nothing is proven unless the control tears. */
export function judgeTears(tested: LitmusAnswer, control: LitmusAnswer): Litmus {
  if (tested.torn > 0) return 'violated';
  return control.torn > 0 && tested.changes >= CHANGES_MIN ? 'held' : 'inconclusive';
}

async function withChildren<T>(
  orders: readonly LitmusOrder[],
  region: Region,
  use: (answers: Promise<LitmusAnswer>[]) => Promise<T>,
): Promise<T> {
  const children = orders.map(startChild);
  try {
    const answers = children.map(answerOf);
    // A failure must not wait for the others; `use` awaits all of them anyway.
    for (const answer of answers) answer.catch(() => {});
    while (Atomics.load(region.i32, AT.ready >>> 2) < orders.length) {
      const ended = await Promise.race([...answers, pause(5)]);
      if (ended !== undefined) break;
    }
    Atomics.store(region.i32, AT.go >>> 2, 1);
    return await use(answers);
  } finally {
    for (const child of children) {
      if (child.exitCode !== null || child.signalCode !== null) continue;
      const closed = once(child, 'close');
      child.kill('SIGKILL');
      await closed;
    }
  }
}

function pause(milliseconds: number): Promise<undefined> {
  return new Promise((resolve) => setTimeout(() => resolve(undefined), milliseconds));
}

function startChild(order: LitmusOrder): ChildProcess {
  const name = `./atomicity-worker${extname(fileURLToPath(import.meta.url))}`;
  const script = fileURLToPath(new URL(name, import.meta.url));
  const loader = process.execArgv.filter(
    (argument, i, all) => /^--import/.test(argument) || all[i - 1] === '--import',
  );
  return spawn(process.execPath, [...loader, script, JSON.stringify(order)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
}

async function answerOf(child: ChildProcess): Promise<LitmusAnswer> {
  let text = '';
  child.stdout?.on('data', (some) => {
    text += some;
  });
  await once(child, 'close');
  if (child.exitCode !== 0) throw new Error(`a litmus process ended with ${child.exitCode}`);
  return JSON.parse(text) as LitmusAnswer;
}
