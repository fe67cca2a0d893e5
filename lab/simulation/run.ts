/** The papers' experiments on the simulated fabric. See `--help`. */
import { writeFileSync } from 'node:fs';
import { CONNECTX5, PRESETS } from '../simulated/model.ts';
import { cpuTime, monotonic } from '../support/clock.ts';
import { describeMachine } from '../support/machine.ts';
import { parseOptions, UsageError } from '../support/options.ts';
import { chimeSensitivity } from './chime-sensitivity.ts';
import { chimeSpeculation } from './chime-speculation.ts';
import { chimeSteps } from './chime-steps.ts';
import { chimeIndirect, chimeYcsb } from './chime-ycsb.ts';
import { coroutines } from './coroutines.ts';
import { directoryCache } from './directory-cache.ts';
import type { Experiment, Outcome } from './experiment.ts';
import { hstoreBasics } from './hstore-basics.ts';
import { hstoreDegraded } from './hstore-degraded.ts';
import { hstoreYcsb } from './hstore-ycsb.ts';
import { indexes } from './indexes.ts';
import { latency } from './latency.ts';
import { nodes } from './nodes.ts';
import { preallocation } from './preallocation.ts';
import { publishedErrors } from './published-errors.ts';
import { printed } from './report.ts';
import { resizing } from './resizing.ts';
import { scale } from './scale.ts';
import { sepHashSegments } from './sephash-segments.ts';
import { sepHashSettings } from './sephash-settings.ts';
import { sepHashTechniques } from './sephash-techniques.ts';
import { shardAlpha } from './shard-alpha.ts';
import { shardResizing } from './shard-resizing.ts';
import { shardSteps } from './shard-steps.ts';
import { speed } from './speed.ts';

const EXPERIMENTS: readonly Experiment[] = [
  latency,
  indexes,
  directoryCache,
  coroutines,
  preallocation,
  resizing,
  publishedErrors,
  scale,
  nodes,
  sepHashTechniques,
  sepHashSegments,
  sepHashSettings,
  shardSteps,
  shardAlpha,
  shardResizing,
  chimeSteps,
  chimeSpeculation,
  chimeSensitivity,
  chimeYcsb,
  chimeIndirect,
  hstoreBasics,
  hstoreYcsb,
  hstoreDegraded,
  speed(monotonic, cpuTime),
];

const PRESET_NAMES = PRESETS.map(({ name }) => name).join(', ');
const NAMES = EXPERIMENTS.map(({ name }) => name).join(', ');

const SPEC = {
  seed: { kind: 'integer', fallback: 1, help: 'seed of the run' },
  preset: { kind: 'text', fallback: 'cx5', help: `network: ${PRESET_NAMES}` },
  operations: {
    kind: 'integer',
    fallback: 10_000,
    minimum: 100,
    help: 'operations to measure of each kind',
  },
  json: { kind: 'text', fallback: '', help: 'file to write every figure to' },
} as const;

export async function main(argv: string[]): Promise<void> {
  const { names: wanted, flags } = splitArguments(argv);
  const command = `stepwell-lab simulate [${NAMES}]`;
  const options = parseOptions(command, SPEC, flags);
  const model = PRESETS.find(({ name }) => name === options.preset);
  if (model === undefined) throw new UsageError(`--preset is one of ${PRESET_NAMES}`);
  const unknown = wanted.find((name) => !EXPERIMENTS.some((one) => one.name === name));
  if (unknown !== undefined) throw new UsageError(`no experiment '${unknown}'; there are ${NAMES}`);
  const settings = { model, seed: options.seed, operations: options.operations };
  const outcomes: Record<string, Outcome> = {};
  for (const { name, run, hardware = CONNECTX5.name } of EXPERIMENTS) {
    if (wanted.length > 0 && !wanted.includes(name)) continue;
    outcomes[name] = model.name === hardware ? run(settings) : withoutPaper(run(settings));
    console.log(`${printed(outcomes[name])}\n`);
  }
  if (options.json !== '') {
    const whole = { options, model, machine: describeMachine(), outcomes };
    writeFileSync(options.json, `${JSON.stringify(whole, null, 2)}\n`);
  }
}

/** Drops the paper's figures, which hold only for the paper's hardware. */
function withoutPaper(outcome: Outcome): Outcome {
  return { ...outcome, rows: outcome.rows.map((row) => ({ ...row, published: undefined })) };
}

/** Names of experiments come first, then options. */
function splitArguments(argv: readonly string[]): { names: string[]; flags: string[] } {
  const first = argv.findIndex((word) => word.startsWith('-'));
  const end = first < 0 ? argv.length : first;
  return { names: argv.slice(0, end), flags: argv.slice(end) };
}
