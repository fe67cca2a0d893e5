/** CHIME's Table 1 and Figures 3d, 14, 16 and 19, none of which needs a clock. */
import { writeFileSync } from 'node:fs';
import { describeMachine } from '../support/machine.ts';
import { parseOptions } from '../support/options.ts';
import { describeHotspots, measureHotspots } from './hotspot-rates.ts';
import { describeLoad, describeTables, measureLoad, measureTables } from './load-at-split.ts';
import { describeMemory, measureMemory } from './memory.ts';
import {
  describeInsertions,
  describeTrips,
  measureInsertions,
  measureTrips,
} from './round-trips.ts';

const SPEC = {
  records: { kind: 'integer', fallback: 100_000, minimum: 2000, help: 'keys in each tree' },
  seed: { kind: 'integer', fallback: 1, help: 'seed of the order of keys' },
  json: { kind: 'text', fallback: '', help: 'file to write every figure to' },
} as const;

export async function main(argv: string[]): Promise<void> {
  const options = parseOptions('stepwell-lab chime-claims', SPEC, argv);
  const { records, seed } = options;
  const trips = measureTrips(seed);
  console.log(`${describeTrips(trips)}\n`);
  const insertions = measureInsertions(Math.min(records, 20_000), seed);
  console.log(`${describeInsertions(insertions)}\n`);
  const tables = measureTables(seed);
  console.log(`${describeTables(tables)}\n`);
  const load = measureLoad(records, seed);
  console.log(`${describeLoad(load)}\n`);
  const memory = measureMemory(records, seed);
  console.log(`${describeMemory(memory)}\n`);
  const hotspots = measureHotspots(records, seed);
  console.log(describeHotspots(hotspots));
  if (options.json !== '') {
    const whole = {
      options,
      machine: describeMachine(),
      trips,
      insertions,
      tables,
      load,
      memory,
      hotspots,
    };
    writeFileSync(options.json, `${JSON.stringify(whole, null, 2)}\n`);
  }
}
