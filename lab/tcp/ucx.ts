/**
 * Compares READs over UCX on this machine with `ucx_perftest`: the same transport, size and kind of
 * memory, alternating. Reports the median time of single READs, and the rate of many together. With
 * `--soak` it instead writes and reads a store for that many minutes, and prints how much memory
 * the processes use.
 */
import { loadavg } from 'node:os';
import type { TcpFabric } from '../../src/fabrics/tcp/client/tcp-fabric.ts';
import { connectUcx } from '../../src/fabrics/ucx/client/connect.ts';
import { Batch, Scratch } from '../../src/verbs/index.ts';
import { Cleanup } from '../support/cleanup.ts';
import { parseOptions } from '../support/options.ts';
import { impatientPoll, type PerfTask, runPerftest } from './perftest.ts';
import { endProcess, firstMessage, startProcess } from './processes.ts';
import { soak } from './ucx-soak.ts';
import { Lanes } from './verb-rate.ts';

const OPTIONS = {
  transports: { kind: 'text', fallback: 'tcp,posix', help: 'transports to measure, with commas' },
  rounds: { kind: 'integer', fallback: 5, minimum: 1, help: 'rounds, of which the best counts' },
  ms: { kind: 'integer', fallback: 500, minimum: 50, help: 'milliseconds of one measurement' },
  soak: { kind: 'integer', fallback: 0, help: 'run a soak of this many minutes instead' },
} as const;
type Settings = ReturnType<typeof parseOptions<typeof OPTIONS>>;

const NODE_BYTES = 2 ** 28;
const NEAR_BYTES = 2 ** 18;
const READ_BYTES = 64;
const LATENCY_WANTED = 1.5;
const RATE_WANTED = 0.6;
const ITERATIONS = 20_000;
const TOGETHER = 32;
/** READs whose times are kept. */
const TIMES_MAX = 2 ** 20;
/** Transports over which a reader can copy out of memory that UCX allocated. */
const SHARED = ['posix', 'sysv'];

/** The best of all rounds, which other processes disturbed least. */
interface Best {
  micros: number;
  rate: number;
}

async function measure(transports: string, { rounds, ms }: Settings): Promise<void> {
  const cleanup = new Cleanup();
  try {
    const node = startProcess(cleanup, 'node-process', [String(NODE_BYTES), transports]);
    const port = await firstMessage<number>(node);
    const fabric = await connectUcx([{ host: '127.0.0.1', port }]);
    cleanup.add(() => fabric.close());
    const many = new Lanes(fabric, TOGETHER, 4);
    const task = { transports, bytes: READ_BYTES, preload: impatientPoll(cleanup) };
    const theirs = async (memory: PerfTask['memory'], iterations: number): Promise<Best> => {
      const peer = { ...task, memory, iterations };
      const { micros } = await runPerftest(cleanup, { ...peer, outstanding: 1 });
      const { rate } = await runPerftest(cleanup, { ...peer, outstanding: TOGETHER });
      return { micros, rate };
    };
    const ours = async (): Promise<Best> => {
      const micros = await medianRead(fabric, ms);
      return { micros, rate: TOGETHER * (await many.run(ms, NEAR_BYTES)) };
    };
    const best: Best[] = [];
    for (let round = -1; round < rounds; round++) {
      const all = [await ours(), await theirs('of the process', ITERATIONS)];
      if (SHARED.includes(transports)) all.push(await theirs('of UCX', 10 * ITERATIONS));
      if (round < 0) continue;
      for (const [i, { micros, rate }] of all.entries()) {
        const { micros: least, rate: most } = best[i] ?? { micros: Infinity, rate: 0 };
        best[i] = { micros: Math.min(least, micros), rate: Math.max(most, rate) };
      }
    }
    tell(transports, best);
    await endProcess(node);
  } finally {
    await cleanup.run();
  }
}

/** Median microseconds of single READs. */
async function medianRead(fabric: TcpFabric, ms: number): Promise<number> {
  const times: number[] = [];
  const batch = new Batch();
  const scratch = new Scratch(READ_BYTES);
  const end = performance.now() + ms;
  await new Promise<void>((resolve, reject) => {
    const post = () => {
      const began = performance.now();
      batch.clear();
      batch.read((times.length * READ_BYTES) % NEAR_BYTES, READ_BYTES, scratch, 0);
      const completed = (error: unknown) => {
        const now = performance.now();
        times.push(1000 * (now - began));
        if (error !== undefined) reject(error);
        else if (now < end && times.length < TIMES_MAX) post();
        else resolve();
      };
      fabric.post(batch, { completed });
    };
    post();
  });
  return times.sort((one, other) => one - other)[times.length >> 1];
}

function tell(transports: string, [mine, peer, copy]: Best[]): void {
  const slower = mine.micros / peer.micros;
  const share = mine.rate / peer.rate;
  const missed = (isMissed: boolean, wanted: number) => (isMissed ? ` (wanted ${wanted})` : '');
  const load = loadavg()[0].toFixed(1);
  console.log(
    `${transports} (load ${load}): a READ of 64 bytes ${mine.micros.toFixed(2)} us, ` +
      `ucx_perftest ${peer.micros.toFixed(2)} us: ${slower.toFixed(2)}x` +
      `${missed(slower > LATENCY_WANTED, LATENCY_WANTED)}; READs a second ` +
      `${Math.round(mine.rate)}, ucx_perftest ${Math.round(peer.rate)}: ` +
      `${share.toFixed(2)}x${missed(share < RATE_WANTED, RATE_WANTED)}`,
  );
  if (copy === undefined) return;
  console.log(
    `${transports}: ucx_perftest where UCX allocated the memory, and the reader copies without a ` +
      `message: ${copy.micros.toFixed(2)} us, ${Math.round(copy.rate)} a second`,
  );
}

export async function main(argv: string[]): Promise<void> {
  const settings = parseOptions('stepwell-lab bench-ucx', OPTIONS, argv);
  for (const transports of settings.transports.split(',')) {
    if (settings.soak > 0) await soak(transports, settings.soak);
    else await measure(transports, settings);
  }
}
