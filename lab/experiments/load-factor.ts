/** How full a RACE subtable is when an insert first finds no free slot, by associativity. */
import { writeFileSync } from 'node:fs';
import { hasCode } from '../../src/errors.ts';
import type { Store } from '../../src/store/api.ts';
import { openSync } from '../../src/store/open.ts';
import { describeMachine } from '../support/machine.ts';
import { parseOptions } from '../support/options.ts';
import { spread } from '../support/statistics.ts';
import { grouped, percent, table } from '../support/text.ts';
import { mix32 } from '../workloads/index.ts';

const SPEC = {
  seeds: { kind: 'integer', fallback: 5, minimum: 1, help: 'tables of each shape' },
  'max-groups': { kind: 'integer', fallback: 65_536, minimum: 64, help: 'largest subtable' },
  json: { kind: 'text', fallback: '', help: 'file to write every figure to' },
} as const;

const ASSOCIATIVITIES = [4, 7, 8, 16, 32] as const;
const GROUPS = [64, 4096, 65_536] as const;

interface Row {
  associativity: number;
  groups: number;
  slots: number;
  loadFactors: number[];
}

export async function main(argv: string[]): Promise<void> {
  const options = parseOptions('stepwell-lab load-factor', SPEC, argv);
  const rows: Row[] = [];
  for (const groups of GROUPS.filter((count) => count <= options['max-groups'])) {
    for (const associativity of ASSOCIATIVITIES) {
      rows.push(measure(associativity, groups, options.seeds));
      console.error(`${groups} groups of associativity ${associativity} done`);
    }
  }
  report(rows, options.seeds);
  if (options.json !== '') {
    const whole = { options, machine: describeMachine(), rows };
    writeFileSync(options.json, `${JSON.stringify(whole, null, 2)}\n`);
  }
}

function measure(associativity: number, groups: number, seeds: number): Row {
  const row: Row = { associativity, groups, slots: 0, loadFactors: [] };
  for (let seed = 1; seed <= seeds; seed++) {
    const { records, slots } = fill(associativity, groups, seed);
    row.slots = slots;
    row.loadFactors.push(records / slots);
  }
  return row;
}

/** One subtable that may not split: the first insert without a free slot ends the run. */
function fill(associativity: number, groups: number, seed: number) {
  const capacity = 3 * associativity * groups;
  const index = { kind: 'race', associativity, groups, initialDepth: 0, maxDepth: 0 } as const;
  // A record takes one 64-byte unit, a slot 8 bytes; the rest is for the pool's own tables.
  const size = 2 ** Math.ceil(Math.log2(96 * capacity + 64 * 2 ** 20));
  const store = openSync<Uint8Array>('memory:', { size, index, values: 'bytes' });
  try {
    const inserted = insertUntilFull(store, capacity, seed);
    const { records, slots } = store.stats();
    if (records !== inserted) throw new Error(`${inserted} inserted, but ${records} counted`);
    return { records, slots };
  } finally {
    store.close();
  }
}

function insertUntilFull(store: Store<Uint8Array>, capacity: number, seed: number): number {
  const key = new Uint8Array(8);
  const view = new DataView(key.buffer);
  const value = new Uint8Array(8);
  view.setUint32(4, mix32(seed), true);
  for (let index = 0; index <= capacity; index++) {
    view.setUint32(0, mix32(index), true);
    try {
      store.insert(key, value);
    } catch (error) {
      if (hasCode(error, 'SW_INDEX_FULL')) return index;
      throw error;
    }
  }
  throw new Error(`${capacity} slots took more than ${capacity} records`);
}

function report(rows: readonly Row[], seeds: number): void {
  const cells = rows.map(({ associativity, groups, slots, loadFactors }) => {
    const { median, minimum, maximum } = spread(loadFactors);
    const range = `${percent(minimum)} .. ${percent(maximum)}`;
    const published = associativity === 7 ? '90 %' : 'only drawn';
    const sizes = [String(associativity), grouped(groups), grouped(slots)];
    return [...sizes, percent(median), range, published];
  });
  const header = ['associativity', 'groups', 'slots', 'median', `range of ${seeds}`, 'Fig. 12(a)'];
  console.log(table(header, cells, 0));
  console.log(`Load factor at the first insert that finds no free slot, in one subtable.
RACE (Zuo et al.): "RACE hashing reaches 90% when the associativity is 7" (5.2.1). The other points
of Figure 12(a) are only drawn, not given in the text; the size of its table is not given either
(the evaluation's tables are "sized to store 100 million items").`);
}
