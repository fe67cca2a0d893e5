/** Measures full pools that several processes share: see docs/measurements/full-pool.md. */
import { writeFileSync } from 'node:fs';
import type { IndexName } from '../../src/store/api.ts';
import { describeMachine } from '../support/machine.ts';
import { parseOptions } from '../support/options.ts';
import { doorbells } from './doorbells.ts';
import { evictions } from './evictions.ts';
import type { Plan } from './plan.ts';
import { sharedHitRates } from './shared-hit-rates.ts';
import { sizes } from './sizes.ts';
import { stalls } from './stalls.ts';
import { torture } from './torture.ts';

const SPEC = {
  only: {
    kind: 'text',
    fallback: '',
    help: 'evictions, doorbells, sizes, stalls, torture or hit-rates',
  },
  index: {
    kind: 'text',
    fallback: 'race,sephash,shard,chime,hopscotch,hstore',
    help: 'kinds of index, with commas',
  },
  processes: { kind: 'text', fallback: '1,2,4,16', help: 'that share the store, with commas' },
  records: { kind: 'integer', fallback: 1_000_000, minimum: 1000, help: 'of a store of `stalls`' },
  rounds: { kind: 'integer', fallback: 10, minimum: 1, help: 'of `torture`' },
  requests: {
    kind: 'integer',
    fallback: 100_000,
    minimum: 1000,
    help: 'of each trace of `hit-rates`',
  },
  seed: { kind: 'integer', fallback: 1, minimum: 0, help: 'of `torture`, and of traces' },
  json: { kind: 'text', fallback: '', help: 'file to write every figure to' },
} as const;

const PARTS: Readonly<Record<string, (plan: Plan) => Promise<object[]>>> = {
  evictions,
  doorbells,
  sizes,
  stalls,
  torture,
  'hit-rates': sharedHitRates,
};

export async function main(words: string[]): Promise<void> {
  const options = parseOptions('stepwell-lab full-pool', SPEC, words);
  const plan: Plan = {
    indexes: options.index.split(',') as IndexName[],
    processes: options.processes.split(',').map(Number),
    records: options.records,
    rounds: options.rounds,
    requests: options.requests,
    seed: options.seed,
  };
  const measured: Record<string, object[]> = {};
  for (const [name, part] of Object.entries(PARTS)) {
    if (options.only === '' || options.only === name) measured[name] = await part(plan);
  }
  if (options.json === '') return;
  const whole = { options, machine: describeMachine(), ...measured };
  writeFileSync(options.json, `${JSON.stringify(whole, null, 2)}\n`);
}
