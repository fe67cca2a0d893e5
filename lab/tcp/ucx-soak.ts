import type { ChildProcess } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';
import { connectUcx } from '../../src/fabrics/ucx/client/connect.ts';
import { inspect } from '../../src/store/open.ts';
import { Cleanup } from '../support/cleanup.ts';
import { median } from '../support/statistics.ts';
import { firstMessage, startProcess } from './processes.ts';
import type { SoakReport, SoakTask } from './soak-client.ts';
import { touchAll } from './verb-rate.ts';

const NODE_BYTES = 2 ** 26;
const CLIENTS = 2;
const SAMPLE_MS = 10_000;
/** Until then the memory of compilers and garbage collectors still grows. */
const SETTLED_MS = 120_000;
/** Samples per median, two minutes' worth, because garbage collection makes memory fluctuate. */
const WINDOW = 12;
const GROWTH_MAX = 0.05;

/**
 * Starts a node and two clients, each in its own process. The clients write, read, delete and scan
 * a bounded number of records, half of which expire. The second one also opens and closes a store
 * once a second, so that leaks of a session add up. Prints every 10 s what each process holds, and
 * at the end whether it was flat from the second minute on.
 */
export async function soak(transports: string, minutes: number): Promise<void> {
  const cleanup = new Cleanup();
  try {
    const node = startProcess(cleanup, 'node-process', [String(NODE_BYTES), transports]);
    const port = await firstMessage<number>(node);
    const url = `ucx://127.0.0.1:${port}`;
    // Touch all of the pool's memory first, so that its growth does not count.
    const fabric = await connectUcx([{ host: '127.0.0.1', port }]);
    await touchAll(fabric, NODE_BYTES);
    fabric.close();
    const processes = new Map([['node', node]]);
    for (let client = 1; client <= CLIENTS; client++) {
      const task: SoakTask = { url, seed: client, opens: client === CLIENTS };
      const child = startProcess(cleanup, 'soak-client', [JSON.stringify(task)]);
      await firstMessage(child);
      processes.set(`client ${client}`, child);
    }
    const start = performance.now();
    const rss = new Map([...processes.keys()].map((name) => [name, [] as number[]]));
    for (let at = 0; at <= 60_000 * minutes; at += SAMPLE_MS) {
      await setTimeout(Math.max(0, start + at - performance.now()));
      const samples = await sample(processes);
      const { chunks } = await inspect(url);
      console.log(`${transports}, ${at / 1000} s, ${chunks.used} chunks of the pool`);
      for (const [name, held] of samples) {
        rss.get(name)?.push(held.rss);
        console.log(`  ${name.padEnd(8)} ${describe(held)}`);
      }
    }
    const settled = SETTLED_MS / SAMPLE_MS;
    for (const [name, all] of rss) {
      const first = median(all.slice(settled, settled + WINDOW));
      const growth = median(all.slice(-WINDOW)) / first - 1;
      const verdict = growth > GROWTH_MAX ? `, wanted at most ${GROWTH_MAX}` : '';
      console.log(`${transports}: rss of ${name} grew by ${growth.toFixed(3)}${verdict}`);
    }
  } finally {
    await cleanup.run();
  }
}

interface Held {
  rss: number;
  /** Memory that UCX has registered with a NIC, or shares with other processes. */
  registered: number;
  descriptors: number;
  /** The process's own report; a node reports only its first thread. */
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
