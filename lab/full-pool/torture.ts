import { setTimeout as pause } from 'node:timers/promises';
import type { IndexName } from '../../src/store/api.ts';
import { checkSync } from '../../src/store/open.ts';
import { Prng } from '../workloads/index.ts';
import type { Plan } from './plan.ts';
import { boundOf, type SharedStore, UNREACHED, withStore } from './shared-store.ts';

const POOL_BYTES = 12 * 2 ** 20;
const PROCESSES = 4;
/** More than the pool has room for, so that it is always full. */
const KEYS = 60_000;
const SIZES = '60,300,300,300,1000,3000';
/** Calls of a task. */
const CALLS = 1000;
/** In each round so many processes are killed or stopped. */
const INCIDENTS = 12;
const APART_MS = 80;
const STOPPED_MS = 120;
/** Until all processes are idle. */
const REST_MS = 300;
/** Records of one size that show how much the pool has room for. */
const SAMPLE_BYTES = '300';
const SAMPLE_COUNT = 1000;

interface Row {
  index: IndexName;
  kills: number;
  stops: number;
  calls: number;
  refused: number;
  /** Values that were not those of their keys. */
  wrong: number;
  problems: string[];
  /** Records of one size in the first store, and after the last round. */
  before: number;
  after: number;
}

/**
 * A full pool whose processes are killed, and stopped by SIGSTOP, while they write, delete and
 * evict records of several sizes. After each round `check` must be clean, and the store must hold
 * as many records as before.
 */
export async function torture({ indexes, rounds, seed }: Plan): Promise<Row[]> {
  const rows: Row[] = [];
  console.log('Kills and SIGSTOPs in a full pool');
  console.log(
    'index       kills  stops     calls  refused  wrong  problems  records before   after',
  );
  for (const index of indexes) {
    const random = Prng.fromSeed(seed);
    const row = await withStore(index, PROCESSES, { size: POOL_BYTES, ...UNREACHED }, (shared) =>
      suffer(index, shared, rounds, random),
    );
    rows.push(row);
    console.log(lineOf(row));
    for (const problem of row.problems.slice(0, 5)) console.log(`  ${problem}`);
  }
  return rows;
}

async function suffer(
  index: IndexName,
  shared: SharedStore,
  rounds: number,
  random: Prng,
): Promise<Row> {
  const row = { index, kills: 0, stops: 0, calls: 0, refused: 0, wrong: 0 };
  const problems: string[] = [];
  // Tables do not shrink: they grow before the first look.
  await churn(shared, random, row, 0);
  const before = await capacity(shared);
  let after = before;
  for (let round = 0; round < rounds; round++) {
    await churn(shared, random, row, INCIDENTS);
    problems.push(...checkSync(shared.url, { sweep: true }).problems);
    after = await capacity(shared);
    problems.push(...checkSync(shared.url).problems);
  }
  return { ...row, problems, before, after };
}

/** All processes write, until so many have been killed or stopped and each has done a task. */
async function churn(
  { crew }: SharedStore,
  random: Prng,
  row: Pick<Row, 'kills' | 'stops' | 'calls' | 'refused' | 'wrong'>,
  incidents: number,
): Promise<void> {
  let isOver = false;
  const work = async (process: number): Promise<void> => {
    do {
      const seed = random.next32();
      const task = { kind: 'churn', seed, count: CALLS, keys: KEYS, sizes: SIZES } as const;
      const done = await crew.oneOrDead(process, task);
      if (done === undefined) continue;
      row.calls += CALLS;
      row.refused += done.refused;
      row.wrong += done.wrong;
    } while (!isOver);
  };
  const working = Array.from({ length: crew.size }, (_, process) => work(process));
  for (let i = 0; i < incidents; i++) {
    await pause(random.below(APART_MS));
    const victim = random.below(crew.size);
    if (random.below(2) === 0) {
      crew.signal(victim, 'SIGKILL');
      row.kills++;
    } else {
      crew.signal(victim, 'SIGSTOP');
      await pause(random.below(STOPPED_MS));
      crew.signal(victim, 'SIGCONT');
      row.stops++;
    }
  }
  isOver = true;
  await Promise.all(working);
  await pause(REST_MS);
  await Promise.all(working.map((_, process) => crew.replace(process)));
}

/**
 * How many records of one size an empty store holds once it grows no more. A single eviction does
 * not tell: a store that frees records late evicts ahead of need, and grows again.
 */
async function capacity(shared: SharedStore): Promise<number> {
  shared.store.clear();
  await pause(REST_MS);
  for (let from = 0, before = Number.NEGATIVE_INFINITY; ; from += SAMPLE_COUNT) {
    const { records } = boundOf(shared);
    if (records - before < SAMPLE_COUNT / 20) return records;
    before = records;
    const count = SAMPLE_COUNT;
    await shared.crew.one(0, { kind: 'write', from, count, sizes: SAMPLE_BYTES, timed: false });
  }
}

function lineOf({ index, kills, stops, calls, refused, wrong, problems, before, after }: Row) {
  const columns = [kills, stops, calls, refused, wrong, problems.length, before, after];
  const widths = [7, 7, 10, 9, 7, 10, 16, 8];
  return index.padEnd(10) + columns.map((n, i) => String(n).padStart(widths[i])).join('');
}
