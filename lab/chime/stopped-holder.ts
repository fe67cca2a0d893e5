/** Measures how long clients wait for a process stopped at a verb of a write. See `--help`. */
import { type ChildProcess, fork } from 'node:child_process';
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { openSync } from '../../src/store/open.ts';
import { Cleanup } from '../support/cleanup.ts';
import { describeMachine } from '../support/machine.ts';
import { parseOptions } from '../support/options.ts';
import { table } from '../support/text.ts';
import type { Call, Report, Task } from './stopped-process.ts';

const SPEC = {
  milliseconds: {
    kind: 'integer',
    fallback: 3000,
    minimum: 100,
    help: 'how long the process is stopped',
  },
  verbs: {
    kind: 'integer',
    fallback: 1000,
    minimum: 1,
    help: 'at most this many verbs of each write',
  },
  only: { kind: 'text', fallback: '', help: 'only writes with this text in their names' },
  probe: { kind: 'text', fallback: '', help: 'only probes with this text in their names' },
  json: { kind: 'text', fallback: '', help: 'file to write every figure to' },
} as const;

const PROCESS = fileURLToPath(new URL('./stopped-process.js', import.meta.url));
const OPTIONS = { size: 16 * 2 ** 20, maxClients: 16 };
const RECORDS = 200;
const LOOK_MS = 2;
/** A probe that takes less than this share of the stop did not wait for the stopped process. */
const WAITED_SHARE = 0.5;

const keyOf = (i: number) => `k${String(i).padStart(4, '0')}`;
const MIDDLE = 100;

/** What other clients call meanwhile. All calls except the last are on the same leaf. */
const PROBES: Readonly<Record<string, Call>> = {
  'get of the key': { kind: 'get', key: keyOf(MIDDLE) },
  'get of a neighbour': { kind: 'get', key: keyOf(MIDDLE + 1) },
  'get of an absent key': { kind: 'get', key: `${keyOf(MIDDLE)}x` },
  scan: { kind: 'scan', key: keyOf(MIDDLE - 2) },
  'set of a neighbour': { kind: 'set', key: keyOf(MIDDLE + 2) },
  'set in another leaf': { kind: 'set', key: keyOf(0) },
};

/** A write during which a process is stopped, and a copy of the pool before it. */
interface Write {
  name: string;
  call: Call;
  path: string;
}

interface StoppedRow {
  write: string;
  /** The process stopped after this many verbs. */
  verb: number;
  /** How long each probe took. */
  ms: number[];
}

class Worker {
  readonly #child: ChildProcess = fork(PROCESS);
  #lost: (error: Error) => void = () => {};

  constructor() {
    this.#child.once('exit', () => this.#lost(new Error('a process has ended')));
  }

  run(task: Task): Promise<Report> {
    return new Promise((resolve, reject) => {
      this.#lost = reject;
      this.#child.once('message', (report) => resolve(report as Report));
      this.#child.send(task);
    });
  }

  get isStopped(): boolean {
    const stat = readFileSync(`/proc/${this.#child.pid}/stat`, 'utf8');
    return stat.slice(stat.lastIndexOf(')') + 2).startsWith('T');
  }

  goOn(): void {
    this.#child.kill('SIGCONT');
  }

  end(): void {
    this.#lost = () => {};
    this.goOn();
    this.#child.kill('SIGKILL');
  }
}

interface Probe {
  call: Call;
  worker: Worker;
}

export async function main(argv: string[]): Promise<void> {
  const options = parseOptions('stepwell-lab stopped-holder', SPEC, argv);
  const cleanup = new Cleanup();
  try {
    const folder = mkdtempSync(join(tmpdir(), 'stepwell-stopped-'));
    cleanup.add(() => rmSync(folder, { recursive: true, force: true }));
    const stopped = new Worker();
    const probes = Object.keys(PROBES).filter((name) => name.includes(options.probe));
    const others = probes.map((name) => ({ call: PROBES[name], worker: new Worker() }));
    for (const worker of [stopped, ...others.map((one) => one.worker)]) {
      cleanup.add(() => worker.end());
    }
    const rows: StoppedRow[] = [];
    for (const [name, prepare] of Object.entries(WRITES)) {
      if (!name.includes(options.only)) continue;
      const path = join(folder, name.replace(' ', '-'));
      const write: Write = { name, path, call: prepare(path) };
      for (let verb = 1; verb <= options.verbs; verb++) {
        const row = await measure(write, verb, stopped, others, options.milliseconds);
        if (row === undefined) break;
        rows.push(row);
      }
      console.log(`${describe(write.name, probes, rows, options.milliseconds)}\n`);
    }
    if (options.json !== '') {
      const whole = { options, machine: describeMachine(), probes, rows };
      writeFileSync(options.json, `${JSON.stringify(whole, null, 2)}\n`);
    }
  } finally {
    await cleanup.run();
  }
}

/** Undefined if the write has fewer verbs. */
async function measure(
  { name, call, path }: Write,
  verb: number,
  stopped: Worker,
  others: readonly Probe[],
  milliseconds: number,
): Promise<StoppedRow | undefined> {
  const copy = `${path}.${verb}`;
  copyFileSync(path, copy);
  const url = `file:${copy}`;
  let isOver = false;
  const writing = stopped.run({ url, call, verbs: verb }).finally(() => {
    isOver = true;
  });
  try {
    while (!isOver && !stopped.isStopped) await sleep(LOOK_MS);
    if (isOver) return undefined;
    const probing = Promise.all(
      others.map(({ worker, call: one }) => worker.run({ url, call: one })),
    );
    // Once no probe waits, go on: the rest of the time would show nothing.
    await Promise.race([probing, sleep(milliseconds)]);
    stopped.goOn();
    const reports = await probing;
    await writing;
    const failed = reports.find(({ error }) => error !== undefined);
    if (failed) throw new Error(`${name}, verb ${verb}: ${failed.error}`);
    return { write: name, verb, ms: reports.map(({ ms }) => ms) };
  } finally {
    stopped.goOn();
    rmSync(copy, { force: true });
  }
}

/** By name: creates and closes a pool, to be copied, and returns the call that is the write. */
const WRITES: Readonly<Record<string, (path: string) => Call>> = {
  'an update': (path) => {
    load(path, RECORDS, -1);
    return { kind: 'set', key: keyOf(MIDDLE) };
  },
  'an insertion': (path) => {
    load(path, RECORDS, MIDDLE);
    return { kind: 'set', key: keyOf(MIDDLE) };
  },
  'a split': (path) =>
    before(path, 'splits', RECORDS, (i) => {
      return { kind: 'set', key: `${keyOf(MIDDLE)}-${String((7 * i) % 100).padStart(2, '0')}` };
    }),
  'a merge': (path) =>
    before(path, 'merges', RECORDS, (i) => {
      const away = (i & 1) === 0 ? 3 + (i >> 1) : -3 - (i >> 1);
      return { kind: 'delete', key: keyOf(MIDDLE + away) };
    }),
};

function load(path: string, records: number, except: number): void {
  const store = openSync(`file:${path}`, { ...OPTIONS, index: 'chime' });
  for (let i = 0; i < records; i++) if (i !== except) store.set(keyOf((37 * i) % records), 'old');
  if (except >= 0) store.delete(keyOf(except));
  store.close();
}

/** Makes calls until the counter rises, and restores the pool to before that call. */
function before(
  path: string,
  counter: 'splits' | 'merges',
  records: number,
  callOf: (i: number) => Call,
): Call {
  load(path, records, -1);
  const url = `file:${path}`;
  for (let i = 0; i < records; i++) {
    const call = callOf(i);
    copyFileSync(path, `${path}.before`);
    const store = openSync(url, { create: false });
    if (call.kind === 'set') store.set(call.key, 'new');
    else store.delete(call.key);
    const { resizes } = store.counters();
    store.close();
    if (resizes[counter] === 0) continue;
    copyFileSync(`${path}.before`, path);
    return call;
  }
  throw new Error(`no ${counter} in ${records} calls`);
}

/** One line for consecutive verbs with the same waits. */
function describe(
  name: string,
  probes: readonly string[],
  all: readonly StoppedRow[],
  milliseconds: number,
): string {
  const rows = all.filter(({ write }) => write === name);
  const shown = (ms: number) =>
    ms < WAITED_SHARE * milliseconds ? '-' : `${(ms / 1000).toFixed(1)} s`;
  const patterns = rows.map(({ ms }) => ms.map((one) => (shown(one) === '-' ? '-' : 'waits')));
  const cells: string[][] = [];
  for (let first = 0; first < rows.length; ) {
    const pattern = patterns[first].join();
    let last = first;
    while (last + 1 < rows.length && patterns[last + 1].join() === pattern) last++;
    const longest = rows[first].ms.map((_, probe) =>
      Math.max(...rows.slice(first, last + 1).map(({ ms }) => ms[probe])),
    );
    const verbs = [rows[first].verb, rows[last].verb];
    cells.push([verbs[0] === verbs[1] ? `${verbs[0]}` : verbs.join('-'), ...longest.map(shown)]);
    first = last + 1;
  }
  return `Stopped behind verb N of ${name} (${rows.length} verbs)\n${table(['verb', ...probes], cells)}`;
}
