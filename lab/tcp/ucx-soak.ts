import type { ChildProcess } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';
import { inspect } from '../../src/store/open.ts';
import { Cleanup } from '../support/cleanup.ts';
import { firstMessage, startProcess } from './processes.ts';
import type { SoakReport, SoakTask } from './soak-client.ts';

const NODE_BYTES = 2 ** 26;
const CLIENTS = 2;
const SAMPLE_MS = 10_000;
/** What is used at first is left out: the compilers' and the collectors' memory still grows. */
const SETTLED_MS = 120_000;
const GROWTH_MAX = 0.05;

/**
 * A node and two clients, each in a process of its own, write, read, delete and scan a bounded
 * number of records, half of which expire; the second client also opens and closes a store once a
 * second, so that what a session leaves behind adds up. Prints every 10 s what each process holds,
 * and at the end whether it was flat from the second minute on.
 */
export async function soak(transports: string, minutes: number): Promise<void> {
  const cleanup = new Cleanup();
  try {
    const node = startProcess(cleanup, 'node-process', [String(NODE_BYTES), transports]);
    const url = `ucx://127.0.0.1:${await firstMessage<number>(node)}`;
    const processes = new Map([['node', node]]);
    for (let client = 1; client <= CLIENTS; client++) {
      const task: SoakTask = { url, seed: client, opens: client === CLIENTS };
      const child = startProcess(cleanup, 'soak-client', [JSON.stringify(task)]);
      await firstMessage(child);
      processes.set(`client ${client}`, child);
    }
    const start = performance.now();
    const settled = new Map<string, Held>();
    let last = new Map<string, Held>();
    for (let at = 0; at <= 60_000 * minutes; at += SAMPLE_MS) {
      await setTimeout(Math.max(0, start + at - performance.now()));
      last = await sample(processes);
      if (at <= SETTLED_MS) for (const [name, held] of last) settled.set(name, held);
      const { chunks } = await inspect(url);
      console.log(`${transports}, ${at / 1000} s, ${chunks.used} chunks of the pool`);
      for (const [name, held] of last) console.log(`  ${name.padEnd(8)} ${describe(held)}`);
    }
    for (const [name, { rss }] of last) {
      const growth = rss / (settled.get(name)?.rss ?? rss) - 1;
      const verdict = growth > GROWTH_MAX ? `, wanted at most ${GROWTH_MAX}` : '';
      console.log(`${transports}: rss of ${name} grew by ${growth.toFixed(3)}${verdict}`);
    }
  } finally {
    await cleanup.run();
  }
}

interface Held {
  rss: number;
  /** What UCX has registered with a card, or shares with other processes. */
  registered: number;
  descriptors: number;
  /** What the process says of itself; of a node only that of its first thread. */
  told: Partial<SoakReport>;
}

async function sample(processes: ReadonlyMap<string, ChildProcess>): Promise<Map<string, Held>> {
  const reports = [...processes].map(async ([name, child]) => {
    const answered = firstMessage<SoakReport>(child);
    child.send('memory');
    return [name, await answered, child.pid as number] as const;
  });
  const told = await Promise.all(reports);
  return new Map(told.map(([name, report, pid]) => [name, { ...heldBy(pid), told: report }]));
}

function heldBy(pid: number): Omit<Held, 'told'> {
  const read = (name: string) => readFileSync(`/proc/${pid}/${name}`, 'utf8');
  const kilobytes = (name: string) =>
    Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(read('status'))?.[1] ?? 0);
  let registered = 1024 * (kilobytes('VmPin') + kilobytes('VmLck'));
  for (const [, from, to] of read('maps').matchAll(/^(\w+)-(\w+) .*ucx_shm.*$/gm)) {
    registered += Number.parseInt(to, 16) - Number.parseInt(from, 16);
  }
  const descriptors = readdirSync(`/proc/${pid}/fd`).length;
  return { rss: 1024 * kilobytes('VmRSS'), registered, descriptors };
}

function describe({ rss, registered, descriptors, told }: Held): string {
  const megabytes = (bytes = 0) => `${(bytes / 2 ** 20).toFixed(1)} MiB`.padStart(10);
  const { heap, external, calls, sessions } = told;
  const work = calls === undefined ? '' : `, ${calls} calls, ${sessions} sessions`;
  return (
    `rss${megabytes(rss)}, heap${megabytes(heap)}, external${megabytes(external)}, ` +
    `registered${megabytes(registered)}, ${descriptors} descriptors${work}`
  );
}
