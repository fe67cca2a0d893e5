/** Caches and limiters of applications: Stepwell beside common packages, in one run. */
import { writeFileSync } from 'node:fs';
import { loadavg } from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';
import { Prng } from '../../src/random/prng.ts';
import { destroySync } from '../../src/store/open.ts';
import { startRedisServer } from '../bench/redis-server.ts';
import { Cleanup } from '../support/cleanup.ts';
import { describeMachine } from '../support/machine.ts';
import { parseOptions } from '../support/options.ts';
import { median } from '../support/statistics.ts';
import { figure, grouped, table } from '../support/text.ts';
import { cachePeers } from './caches.ts';
import { limiterPeers } from './limiters.ts';
import { articleOf, type CachePeer } from './peer.ts';

const SPEC = {
  operations: { kind: 'integer', fallback: 20_000, minimum: 10, help: 'operations of a run' },
  keys: { kind: 'integer', fallback: 10_000, minimum: 1, help: 'keys that they choose from' },
  rounds: { kind: 'integer', fallback: 5, minimum: 1, help: 'runs of each; the median counts' },
  json: { kind: 'text', fallback: '', help: 'file to write every figure to' },
} as const;

/** Callers that concurrently ask two workers for one absent key. */
const CALLERS = 50;
const LOAD_MS = 5;

interface Run {
  readonly task: string;
  readonly peer: string;
  readonly nanoseconds: number;
}

interface Flight {
  readonly peer: string;
  readonly keys: number;
  readonly callers: number;
  readonly loads: number;
}

type Task = readonly [task: string, peer: string, count: number, step: (key: string) => unknown];

export async function main(argv: string[]): Promise<void> {
  const options = parseOptions('stepwell-lab bench-apps', SPEC, argv);
  const cleanup = new Cleanup();
  try {
    const redis = await startRedisServer();
    cleanup.add(() => redis.stop());
    const url = `shm:stepwell-bench-apps-${process.pid}`;
    cleanup.add(() => destroySync(url, { force: true }));
    const address = `redis://127.0.0.1:${redis.port}`;
    const caches = cachePeers(url, address, cleanup);
    const tasks = tasksOf(caches, limiterPeers(url, address, cleanup), options.operations);
    for (const { set } of caches) {
      for (let id = 0; id < options.keys; id++) await set(`article:${id}`, articleOf(id));
    }
    const prng = Prng.fromSeed(1);
    const runs: Run[] = [];
    for (let round = 0; round < options.rounds; round++) {
      for (const task of tasks) runs.push(await measure(task, options.keys, prng));
    }
    const flights: Flight[] = [];
    for (const peer of caches) flights.push(await flightOf(peer));
    console.log(report(runs, flights));
    if (options.json !== '') {
      const whole = { options, machine: describeMachine(), runs, flights };
      writeFileSync(options.json, `${JSON.stringify(whole, null, 2)}\n`);
    }
  } finally {
    await cleanup.run();
  }
}

function tasksOf(
  caches: readonly CachePeer[],
  limiters: ReturnType<typeof limiterPeers>,
  operations: number,
): Task[] {
  const unneeded = () => Promise.reject(new Error('the value was there'));
  const count = ({ slower }: { slower: number }) => Math.ceil(operations / slower);
  return [
    ...caches.map((peer): Task => ['get', peer.name, count(peer), (key) => peer.get(key)]),
    ...caches.map(
      (peer): Task => ['set', peer.name, count(peer), (key) => peer.set(key, articleOf(1))],
    ),
    ...caches.map(
      (peer): Task => [
        'get or load, present',
        peer.name,
        count(peer),
        (key) => peer.workers[0](key, unneeded),
      ],
    ),
    ...limiters.map((peer): Task => ['limit', peer.name, count(peer), (key) => peer.take(key)]),
  ];
}

/** Runs one operation after another, on random keys. */
async function measure([task, peer, count, step]: Task, keys: number, prng: Prng): Promise<Run> {
  const chosen = Array.from({ length: count }, () => `article:${prng.below(keys)}`);
  const began = process.hrtime.bigint();
  for (const key of chosen) {
    const pending = step(key);
    if (pending instanceof Promise) await pending;
  }
  return { task, peer, nanoseconds: Number(process.hrtime.bigint() - began) / count };
}

/** Counts how often a value is loaded when many callers of two workers ask for it at once. */
async function flightOf({ name, workers }: CachePeer): Promise<Flight> {
  let loads = 0;
  const keys = 10;
  const load = async () => {
    loads++;
    await pause(LOAD_MS);
    return articleOf(loads);
  };
  for (let key = 0; key < keys; key++) {
    const asked = Array.from({ length: CALLERS }, (_, i) => workers[i % 2](`absent:${key}`, load));
    await Promise.all(asked);
  }
  return { peer: name, keys, callers: CALLERS, loads };
}

function report(runs: readonly Run[], flights: readonly Flight[]): string {
  const tasks = [...new Set(runs.map(({ task }) => task))];
  const rows = tasks.flatMap((task) => {
    const ofTask = runs.filter((run) => run.task === task);
    const cost = (name: string) =>
      median(ofTask.filter(({ peer }) => peer === name).map(({ nanoseconds }) => nanoseconds));
    const ours = cost('stepwell');
    return [...new Set(ofTask.map(({ peer }) => peer))].map((peer) => [
      task,
      peer,
      grouped(Math.round(cost(peer))),
      figure(cost(peer) / ours),
    ]);
  });
  const loads = flights.map(({ peer, keys, callers, loads: count }) => [
    `${keys} keys, ${callers} callers of 2 workers each`,
    peer,
    String(count),
  ]);
  return [
    table(['task', 'peer', 'ns an operation', 'times stepwell'], rows, 2),
    table(['absent at once', 'peer', 'loads'], loads, 2),
    `load average: ${loadavg()[0].toFixed(1)}`,
  ].join('\n\n');
}
