/**
 * Verbs over UCX on this machine beside `ucx_perftest` on the same transport and sizes, in turns:
 * the time of one verb after the other, and how many a second there are of many together. With
 * `--soak` instead a store is written and read for so many minutes, and what the processes hold is
 * printed. Ends by itself.
 */
import { loadavg } from 'node:os';
import { connectUcx } from '../../src/fabrics/ucx/client/connect.ts';
import { Cleanup } from '../support/cleanup.ts';
import { parseOptions } from '../support/options.ts';
import { runPerftest } from './perftest.ts';
import { endProcess, firstMessage, startProcess } from './processes.ts';
import { soak } from './ucx-soak.ts';
import { Lanes } from './verb-rate.ts';

const OPTIONS = {
  transports: { kind: 'text', fallback: 'tcp,posix', help: 'one after the other' },
  rounds: { kind: 'integer', fallback: 5, minimum: 1, help: 'rounds, of which the best counts' },
  ms: { kind: 'integer', fallback: 500, minimum: 50, help: 'milliseconds of one measurement' },
  soak: { kind: 'integer', fallback: 0, help: 'minutes of a soak instead' },
} as const;
type Settings = ReturnType<typeof parseOptions<typeof OPTIONS>>;

const NODE_BYTES = 2 ** 28;
const NEAR_BYTES = 2 ** 18;
const READ_BYTES = 64;
const LATENCY_WANTED = 1.5;
const RATE_WANTED = 0.6;
const ITERATIONS = 20_000;
/**
 * Its tests for one verb after the other, and for many. Over `posix` its READ is a load from shared
 * memory, which a node could not take from a client: there the messages of a READ are compared,
 * one way and back.
 */
const PEERS: Record<string, { single: string; many: string; ways: number }> = {
  tcp: { single: 'ucp_get', many: 'ucp_get', ways: 1 },
  posix: { single: 'ucp_am_lat', many: 'ucp_am_bw', ways: 2 },
};
const TOGETHER = 32;

async function measure(transports: string, { rounds, ms }: Settings): Promise<void> {
  const cleanup = new Cleanup();
  try {
    const node = startProcess(cleanup, 'node-process', [String(NODE_BYTES), transports]);
    const port = await firstMessage<number>(node);
    const fabric = await connectUcx([{ host: '127.0.0.1', port }]);
    cleanup.add(() => fabric.close());
    const one = new Lanes(fabric, 1, 1);
    const many = new Lanes(fabric, TOGETHER, 4);
    const best = { latency: 0, rate: 0, theirLatency: Infinity, theirRate: 0 };
    const task = { transports, bytes: READ_BYTES, iterations: ITERATIONS };
    const peer = PEERS[transports] ?? PEERS.tcp;
    for (let round = -1; round < rounds; round++) {
      const latency = await one.run(ms, NEAR_BYTES);
      const rate = TOGETHER * (await many.run(ms, NEAR_BYTES));
      const single = await runPerftest(cleanup, { ...task, test: peer.single, outstanding: 1 });
      const together = await runPerftest(cleanup, {
        ...task,
        test: peer.many,
        outstanding: TOGETHER,
      });
      if (round < 0) continue;
      best.latency = Math.max(best.latency, latency);
      best.rate = Math.max(best.rate, rate);
      best.theirLatency = Math.min(best.theirLatency, single.micros * peer.ways);
      best.theirRate = Math.max(best.theirRate, together.rate, single.rate);
    }
    const mine = 1e6 / best.latency;
    const slower = mine / best.theirLatency;
    const share = best.rate / best.theirRate;
    const missed = (isMissed: boolean, wanted: number) => (isMissed ? ` (wanted ${wanted})` : '');
    const load = loadavg()[0].toFixed(1);
    console.log(
      `${transports} (load ${load}): a READ of 64 bytes ${mine.toFixed(1)} us, ` +
        `ucx_perftest ${best.theirLatency.toFixed(1)} us: ${slower.toFixed(2)}x` +
        `${missed(slower > LATENCY_WANTED, LATENCY_WANTED)}; READs a second ` +
        `${Math.round(best.rate)}, ucx_perftest ${Math.round(best.theirRate)}: ` +
        `${share.toFixed(2)}x${missed(share < RATE_WANTED, RATE_WANTED)}`,
    );
    await endProcess(node);
  } finally {
    await cleanup.run();
  }
}

export async function main(argv: string[]): Promise<void> {
  const settings = parseOptions('stepwell-lab bench-ucx', OPTIONS, argv);
  for (const transports of settings.transports.split(',')) {
    if (settings.soak > 0) await soak(transports, settings.soak);
    else await measure(transports, settings);
  }
}
