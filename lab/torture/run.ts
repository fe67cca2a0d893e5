/** Torture by processes that share one pool and are killed: rounds until the time is over. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { INDEX_NAMES, kindNamed } from '../../src/indexes/kinds.ts';
import type { IndexName } from '../../src/store/api.ts';
import { sharedMemoryDirectory } from '../../src/store/places/pool-place.ts';
import { parseOptions } from '../support/options.ts';
import { type Disturbances, Round, RoundFailure, type RoundReport } from './round.ts';
import { type Canary, drawRound, type RoundSettings } from './settings.ts';

const SPEC = {
  minutes: { kind: 'integer', fallback: 1, help: 'start no round after this time' },
  rounds: { kind: 'integer', fallback: 0, help: 'end after this many rounds; 0 for no limit' },
  processes: { kind: 'integer', fallback: 4, minimum: 1, help: 'workers at a time' },
  operations: { kind: 'integer', fallback: 60_000, minimum: 1, help: 'of each worker in a round' },
  keys: { kind: 'integer', fallback: 0, help: 'owned keys; 0: the seed decides' },
  seed: { kind: 'integer', fallback: 0, help: 'of the first round; 0 for a random one' },
  kill: { kind: 'flag', help: 'kill workers at random, and once all of them together' },
  kills: { kind: 'integer', fallback: 8, help: 'per round, with --kill' },
  stop: { kind: 'flag', help: 'stop and continue workers' },
  suicide: {
    kind: 'integer',
    fallback: 0,
    help: 'workers kill themselves at one in this many doorbells',
  },
  alone: {
    kind: 'flag',
    help: 'run workers in separate pid namespaces; not with --stop or --suicide',
  },
  place: { kind: 'text', fallback: 'shm', help: 'shm or file' },
  stall: { kind: 'integer', fallback: 30_000, help: 'milliseconds after which a worker is stuck' },
  start: {
    kind: 'integer',
    fallback: 120_000,
    help: 'milliseconds in which a worker must start, if it can run',
  },
  strict: { kind: 'flag', help: 'a full pool is a fault even after a worker died' },
  index: {
    kind: 'text',
    fallback: 'race',
    help: INDEX_NAMES.join(', '),
  },
  canary: { kind: 'text', fallback: '', help: 'lie or lose-one: the run must fail' },
} as const;

type Options = ReturnType<typeof parseOptions<typeof SPEC>>;

export async function main(argv: string[]): Promise<void> {
  const command = 'stepwell-lab torture';
  const options = parseOptions(command, SPEC, argv);
  const folder = mkdtempSync(join(tmpdir(), 'stepwell-torture-'));
  if (options.alone && (options.stop || options.suicide > 0)) {
    throw new RangeError('the first process of a pid namespace cannot be stopped, nor kill itself');
  }
  const first = options.seed || 1 + Math.floor(Math.random() * 2 ** 30);
  const total = newTotal();
  try {
    await runRounds(options, folder, first, total);
    console.log(`all rounds held: ${JSON.stringify(total)}`);
  } catch (error) {
    if (!(error instanceof RoundFailure)) throw error;
    const seed = first + total.rounds;
    const again = argv.filter(
      (word, i) => !/^--(seed|rounds)/.test(word) && !/^--(seed|rounds)$/.test(argv[i - 1] ?? ''),
    );
    console.error(
      `${error.message}\nFAILED with seed ${seed}. Again (timing differs from run to run):`,
    );
    console.error(`  ${command} ${again.join(' ')} --seed ${seed} --rounds 1`);
    process.exitCode = 1;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function newTotal() {
  return {
    rounds: 0,
    operations: 0,
    kills: 0,
    suicides: 0,
    stops: 0,
    splits: 0,
    full: 0,
    stall: 0,
    repeated: 0,
  };
}

/** Runs one round per seed until the time is up or all rounds are done. Throws if one fails. */
async function runRounds(
  options: Options,
  folder: string,
  first: number,
  total: ReturnType<typeof newTotal>,
): Promise<void> {
  const end = performance.now() + 60_000 * options.minutes;
  for (let seed = first; performance.now() < end; seed++) {
    if (options.rounds > 0 && total.rounds === options.rounds) break;
    const settings = settingsOf(options, folder, seed);
    const began = performance.now();
    const report = await Round.run(settings, disturbancesOf(options));
    total.rounds++;
    total.operations += report.operations;
    total.kills += report.kills;
    total.suicides += report.suicides;
    total.stops += report.stops;
    total.splits += report.splits;
    total.full += report.poolFull;
    total.repeated += report.repeated;
    total.stall = Math.max(total.stall, report.longestStallMs);
    console.log(line(seed, report, performance.now() - began, settings));
  }
}

function settingsOf(options: Options, folder: string, seed: number): RoundSettings {
  const name = `torture-${process.pid}-${seed}`;
  return drawRound({
    seed,
    url: options.place === 'file' ? `file:${join(folder, name)}` : `shm:${name}`,
    oracle: join(sharedMemoryDirectory(), `stepwell-${name}.oracle`),
    index: kindNamed(options.index).manifest.name as IndexName,
    processes: options.processes,
    operations: options.operations,
    keys: options.keys || undefined,
    suicideEvery: options.suicide,
    alone: options.alone,
    canary: options.canary as Canary,
  });
}

function disturbancesOf(options: Options): Disturbances {
  return {
    kills: options.kill ? options.kills : 0,
    massacres: options.kill ? 1 : 0,
    stops: options.stop ? 4 : 0,
    strict: options.strict,
    stallMs: options.stall,
    startMs: options.start,
  };
}

function line(seed: number, report: RoundReport, ms: number, settings: RoundSettings): string {
  const { operations, kills, suicides, stops, splits, poolFull, longestStallMs, verdict } = report;
  return [
    `seed ${seed}: ${operations} operations in ${(ms / 1000).toFixed(1)} s`,
    `${kills} kills (${suicides} between verbs), ${stops} stops, ${splits} splits`,
    shapeText(settings),
    `longest stall ${longestStallMs} ms, pool full ${poolFull} times`,
    `${verdict.leftoverBlocks} blocks of the dead for the sweep`,
  ].join('; ');
}

function shapeText({ index: { kind, ...parameters }, without }: RoundSettings): string {
  return `${kind} ${JSON.stringify({ ...parameters, without })}`;
}
