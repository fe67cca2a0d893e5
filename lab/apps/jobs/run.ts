/** A job queue beside BullMQ on redis-server: jobs per second, and latency. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { loadavg } from 'node:os';
import { extname } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { destroySync } from '../../../src/store/open.ts';
import { startRedisServer } from '../../bench/redis-server.ts';
import { Cleanup } from '../../support/cleanup.ts';
import { describeMachine } from '../../support/machine.ts';
import { parseOptions } from '../../support/options.ts';
import { median } from '../../support/statistics.ts';
import { figure, grouped, table } from '../../support/text.ts';
import { type Data, type JobPeer, PEERS, type PeerName, type Place, peerOf } from './peers.ts';

const SPEC = {
  jobs: { kind: 'integer', fallback: 2000, minimum: 100, help: 'jobs of a run' },
  samples: { kind: 'integer', fallback: 200, minimum: 1, help: 'jobs whose latency is measured' },
  rounds: { kind: 'integer', fallback: 5, minimum: 1, help: 'runs of each; the median counts' },
  json: { kind: 'text', fallback: '', help: 'file to write every figure to' },
} as const;

const AT_ONCE = 50;
/** A worker has nothing to do for so long between two jobs whose latency is measured. */
const IDLE_MS = 10;

interface Run {
  readonly task: string;
  readonly peer: PeerName;
  readonly jobsPerSecond: number;
}

interface Latency {
  readonly peer: PeerName;
  readonly nanoseconds: number[];
}

export async function main(argv: string[]): Promise<void> {
  const options = parseOptions('stepwell-lab bench-jobs', SPEC, argv);
  const cleanup = new Cleanup();
  try {
    const redis = await startRedisServer();
    cleanup.add(() => redis.stop());
    const url = `shm:stepwell-bench-jobs-${process.pid}`;
    const place: Place = { url, redisPort: redis.port };
    const peers = PEERS.map((name) => peerOf(name, place));
    cleanup.add(() => destroySync(url, { force: true }));
    for (const peer of peers) cleanup.add(() => peer.close());
    const runs: Run[] = [];
    const latencies: Latency[] = [];
    for (let round = 0; round < options.rounds; round++) {
      for (const peer of peers) runs.push(...(await throughput(peer, options.jobs)));
      for (const peer of peers) latencies.push(await latency(peer, place, options.samples));
    }
    console.log(report(runs, latencies));
    if (options.json !== '') {
      const whole = { options, machine: describeMachine(), runs, latencies };
      writeFileSync(options.json, `${JSON.stringify(whole, null, 2)}\n`);
    }
  } finally {
    await cleanup.run();
  }
}

function dataOf(id: number): Data {
  return { to: `user-${id}@example.org`, at: String(process.hrtime.bigint()) };
}

/** Adds jobs and works them off, one by one and many at once. */
async function throughput(peer: JobPeer, count: number): Promise<Run[]> {
  const runs: Run[] = [];
  const time = async (task: string, act: () => Promise<void>) => {
    const began = process.hrtime.bigint();
    await act();
    const seconds = Number(process.hrtime.bigint() - began) / 1e9;
    runs.push({ task, peer: peer.name, jobsPerSecond: count / seconds });
  };
  const ignore = () => {};
  await time('add, one by one', async () => {
    for (let i = 0; i < count; i++) await peer.add(dataOf(i));
  });
  await time('work off, one by one', () => peer.workOff(count, 1, ignore));
  await time(`add, ${AT_ONCE} at once`, async () => {
    for (let i = 0; i < count; i += AT_ONCE) {
      const many = Array.from({ length: Math.min(AT_ONCE, count - i) }, (_, j) => dataOf(i + j));
      await peer.addMany(many);
    }
  });
  await time(`work off, ${AT_ONCE} at once`, () => peer.workOff(count, AT_ONCE, ignore));
  return runs;
}

/** The time from an addition until another process, which was idle, begins with the job. */
async function latency(peer: JobPeer, place: Place, samples: number): Promise<Latency> {
  const file = new URL(`./worker${extname(fileURLToPath(import.meta.url))}`, import.meta.url);
  const words = [peer.name, JSON.stringify(place), String(samples)];
  const child = fork(fileURLToPath(file), words, { execArgv: process.execArgv });
  const exited = once(child, 'exit');
  const next = async () => {
    const ended = exited.then(() => Promise.reject(new Error('the worker has ended')));
    ended.catch(() => {});
    return (await Promise.race([once(child, 'message'), ended]))[0];
  };
  await next();
  const nanoseconds: number[] = [];
  for (let i = 0; i < samples; i++) {
    await pause(IDLE_MS);
    const told = next();
    await peer.add(dataOf(i));
    nanoseconds.push(Number(await told));
  }
  await exited;
  return { peer: peer.name, nanoseconds };
}

function report(runs: readonly Run[], latencies: readonly Latency[]): string {
  const tasks = [...new Set(runs.map(({ task }) => task))];
  const rows = tasks.flatMap((task) => {
    const ofTask = runs.filter((run) => run.task === task);
    const rate = (name: PeerName) =>
      median(ofTask.filter(({ peer }) => peer === name).map(({ jobsPerSecond }) => jobsPerSecond));
    return PEERS.map((name) => [
      task,
      name,
      grouped(Math.round(rate(name))),
      figure(rate(name) / rate('bullmq')),
    ]);
  });
  const times = (name: PeerName, share: number) =>
    median(
      latencies
        .filter(({ peer }) => peer === name)
        .map(({ nanoseconds }) => percentile(nanoseconds, share) / 1e6),
    );
  const delays = PEERS.map((name) => [
    'add until another process begins',
    name,
    figure(times(name, 0.5)),
    figure(times(name, 0.99)),
    figure(times(name, 0.5) / times('bullmq', 0.5)),
  ]);
  return [
    table(['task', 'peer', 'jobs a second', 'times bullmq'], rows, 2),
    table(['latency', 'peer', 'median ms', '99 % ms', 'times bullmq'], delays, 2),
    `load average: ${loadavg()[0].toFixed(1)}`,
  ].join('\n\n');
}

function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
}
