/** A day in the life of a pool: processes come and go, records expire, stores evict and resize. */
import { writeFileSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';
import type { OwnClient } from '../../src/store/administration/tasks.ts';
import { createSync, destroySync } from '../../src/store/open.ts';
import { growSync } from '../../src/store/pools/grow.ts';
import { watchPool } from '../../src/store/watching/observer.ts';
import { type CommandProcess, runCommand, startCommand } from '../gateway/gateway-process.ts';
import { Cleanup } from '../support/cleanup.ts';
import { describeMachine } from '../support/machine.ts';
import { parseOptions } from '../support/options.ts';
import { grouped, mebibytes, table } from '../support/text.ts';
import { Prng } from '../workloads/index.ts';
import { Crew } from './crew.ts';
import { BOUNDS, openFiles, privateBytes, type Sample, type Trend, trends } from './memory.ts';
import { RedisClients } from './redis-clients.ts';

const SPEC = {
  minutes: { kind: 'integer', fallback: 10, minimum: 1, help: 'length of the day' },
  seconds: { kind: 'integer', fallback: 0, help: 'instead of minutes' },
  workers: { kind: 'integer', fallback: 3, minimum: 1, help: 'processes at a time' },
  seed: {
    kind: 'integer',
    fallback: 1,
    help: 'decides what the workers do, and when they are killed',
  },
  beside: {
    kind: 'text',
    fallback: '',
    help: 'a stepwell command to run meanwhile, without its URL, e.g. web',
  },
  json: { kind: 'text', fallback: '', help: 'file to write every figure to' },
} as const;

const MIB = 2 ** 20;
/** Initial size, which doubles after a quarter of the day. */
const POOL_BYTES = 64 * MIB;
/** Samples per day. */
const SAMPLES = 120;
const WORKER_LIFE_MS = 4000;
/** A check takes about a second. */
const CHECK_LIMIT_MS = 120_000;

/** The processes of the day, and what was counted. */
interface Day {
  url: string;
  endsAt: number;
  begun: number;
  crew: Crew;
  clients: RedisClients;
  gateway: CommandProcess;
  /** Its client leaves at the end of the day, before the check. */
  watch: OwnClient;
  gatewaysKilled: number;
  samples: Sample[];
}

export async function main(argv: string[]): Promise<void> {
  const options = parseOptions('stepwell-lab soak', SPEC, argv);
  const cleanup = new Cleanup();
  try {
    const ms = 1000 * (options.seconds || 60 * options.minutes);
    const day = await begin(ms, options, cleanup);
    await pass(day, ms, cleanup);
    await end(day);
    const problems = await check(day.url);
    const flat = trends(day.samples);
    const failures = [...day.crew.failures, ...day.clients.failures, ...problems];
    const rising = (flat ?? []).filter(({ isFlat }) => !isFlat);
    console.log(report(day, flat, failures));
    if (failures.length > 0 || rising.length > 0) process.exitCode = 1;
    if (options.json !== '') {
      const { samples } = day;
      const whole = { options, machine: describeMachine(), samples, flat, failures };
      writeFileSync(options.json, `${JSON.stringify(whole, null, 2)}\n`);
    }
  } finally {
    await cleanup.run();
  }
}

async function begin(
  ms: number,
  { workers, seed, beside }: { workers: number; seed: number; beside: string },
  cleanup: Cleanup,
): Promise<Day> {
  const url = `shm:stepwell-soak-${process.pid}`;
  createSync(url, { size: POOL_BYTES, regionSize: 16 * MIB, maxClients: 64 });
  cleanup.add(() => destroySync(url, { force: true }));
  const lifeMs = Math.min(WORKER_LIFE_MS, ms / 3);
  const crew = new Crew({ url, workers, lifeMs }, Prng.fromSeed(seed));
  cleanup.add(() => crew.kill());
  const gateway = await serve(url, 0, cleanup);
  const clients = new RedisClients(gateway.port);
  if (beside !== '') {
    const other = await startCommand([...beside.split(' '), url], /\n/);
    cleanup.add(() => other.stop());
  }
  await Promise.all([crew.start(), clients.answered()]);
  const begun = performance.now();
  const endsAt = begun + ms;
  const watch = await watchPool(url, { client: 'soak' });
  return { url, crew, clients, gateway, watch, begun, endsAt, gatewaysKilled: 0, samples: [] };
}

async function serve(url: string, port: number, cleanup: Cleanup): Promise<CommandProcess> {
  const gateway = await startCommand(['serve', url, '--port', String(port)], /Ctrl-C/);
  cleanup.add(() => gateway.stop());
  return gateway;
}

/** Samples the day. After a fifth of it the gateway is killed, after a quarter the pool grows. */
async function pass(day: Day, ms: number, cleanup: Cleanup): Promise<void> {
  const pause = Math.max(100, ms / SAMPLES);
  await samples(day, pause, day.begun + ms / 5);
  const { port } = day.gateway;
  await day.gateway.kill();
  day.gatewaysKilled++;
  day.gateway = await serve(day.url, port, cleanup);
  await samples(day, pause, day.begun + ms / 4);
  growSync(day.url, { size: 2 * POOL_BYTES });
  await samples(day, pause, day.endsAt);
}

async function samples(day: Day, pause: number, until: number): Promise<void> {
  while (performance.now() < until && day.crew.failures.length === 0) {
    await setTimeout(Math.min(pause, until - performance.now()));
    day.samples.push(await sampleOf(day));
  }
}

async function sampleOf({ begun, crew, gateway, watch }: Day): Promise<Sample> {
  const { bytesUsed } = await watch.perform('look');
  return {
    seconds: (performance.now() - begun) / 1000,
    pool: bytesUsed,
    gateway: privateBytes(gateway.pid),
    worker: privateBytes(crew.residentPid),
    gatewayFiles: openFiles(gateway.pid),
    workerFiles: openFiles(crew.residentPid),
  };
}

async function end({ crew, clients, gateway, watch }: Day): Promise<void> {
  await clients.stop();
  await crew.stop();
  await gateway.stop();
  await watch.close();
}

/** Checks all stores once no process uses the pool, first with a sweep for dead clients. */
async function check(url: string): Promise<string[]> {
  const problems: string[] = [];
  for (const sweep of [['--sweep'], []]) {
    const { code, output } = await runCommand(['check', url, ...sweep], CHECK_LIMIT_MS);
    if (code === undefined) problems.push(`check ${sweep} did not end: ${output}`);
    else if (code !== 0) problems.push(`check ${sweep} ended with ${code}:\n${output}`);
  }
  return problems;
}

function report(
  { crew, clients, gatewaysKilled, begun, samples }: Day,
  flat: readonly Trend[] | undefined,
  failures: readonly string[],
): string {
  const facts = table(
    ['', ''],
    [
      ['seconds', grouped((performance.now() - begun) / 1000)],
      ['operations of workers', grouped(crew.operations)],
      ['writes that found the pool full', grouped(crew.full)],
      ['workers started, killed', `${crew.started}, ${crew.killed}`],
      ['commands of Redis clients', grouped(clients.commands)],
      ['commands lost with a gateway', grouped(clients.lost)],
      ['gateways killed', grouped(gatewaysKilled)],
    ],
  );
  const lines = [facts, '', flat === undefined ? tooShort(samples) : trendTable(flat)];
  for (const failure of failures) lines.push(`FAILED: ${failure}`);
  lines.push(failures.length === 0 ? 'check: clean' : `${failures.length} failures`);
  return lines.join('\n');
}

function tooShort(samples: readonly Sample[]): string {
  return `${samples.length} samples: too few to tell whether memory is flat`;
}

function trendTable(flat: readonly Trend[]): string {
  const shown = (measure: Trend['measure'], value: number) =>
    measure.endsWith('Files') ? grouped(value) : mebibytes(value);
  return table(
    ['memory', '2nd quarter', 'last quarter', 'may grow by', ''],
    flat.map(({ measure, before, after, isFlat }) => {
      const { share, more } = BOUNDS[measure];
      return [
        measure,
        shown(measure, before),
        shown(measure, after),
        `${Math.round(100 * share)} % + ${shown(measure, more)}`,
        isFlat ? 'flat' : 'RISING',
      ];
    }),
  );
}
