import { SEPHASH_TECHNIQUES } from '../../src/indexes/sephash/geometry.ts';
import { without } from '../../src/indexes/substrates/parameters.ts';
import { percent } from '../support/text.ts';
import type { Experiment, Row, Settings } from './experiment.ts';
import { runPuts } from './puts.ts';
import { registeredKind } from './registered-kind.ts';

const POOL_BYTES = 2 ** 30;
const MAX_DEPTH = 14;
/** As in `sephash-techniques`. */
const SEPHASH = { ratio: 8, initialDepth: 6, maxDepth: MAX_DEPTH };
const RACE = { associativity: 8, groups: 64, initialDepth: 5, maxDepth: MAX_DEPTH };

interface Setting {
  name: string;
  clients: number;
  /** Records that are loaded, and new keys that are put. */
  loaded?: number;
  puts: number;
  /** Differences from `sephash-techniques`. */
  sephash?: Readonly<Record<string, number>>;
  race?: Readonly<Record<string, number>>;
  /** Multiplies the NICs' message rate. */
  messages?: number;
}

const NO_FILTER = without(SEPHASH_TECHNIQUES, 'filter');

const SETTINGS: readonly Setting[] = [
  { name: '16 clients', clients: 16, puts: 100_000 },
  { name: '128 clients, no filter', clients: 128, puts: 100_000, sephash: NO_FILTER },
  { name: '16 clients, no filter', clients: 16, puts: 100_000, sephash: NO_FILTER },
  { name: '128 clients, four times the messages', clients: 128, puts: 60_000, messages: 4 },
  {
    name: '128 clients, eight times the segments',
    clients: 128,
    puts: 60_000,
    sephash: { initialDepth: 9 },
    race: { initialDepth: 8 },
  },
  {
    name: '128 clients, all segments split',
    clients: 128,
    loaded: 300_000,
    puts: 300_000,
    sephash: { initialDepth: 9 },
    race: { initialDepth: 8 },
  },
];

/** Ratios of Figure 20, with splits that read no records, and with splits that read all. */
const RATIOS: readonly { ratio: number; records: number; depth: number; what: string }[] = [
  { ratio: 64, records: 100_000, depth: 4, what: 'splits read nothing' },
  { ratio: 32, records: 100_000, depth: 5, what: 'splits read nothing' },
  { ratio: 64, records: 50_000, depth: 3, what: 'splits read all records' },
  { ratio: 32, records: 25_000, depth: 3, what: 'splits read all records' },
];

/** Where the gain over RACE comes from, and whether 64 KB beats 32 KB anywhere. */
export const sepHashSettings: Experiment = {
  name: 'sephash-settings',
  run(settings) {
    return {
      title: 'SepHash beside RACE in other settings than those of Figures 19 and 20',
      rows: [
        ...SETTINGS.flatMap((setting) => beside(settings, setting)),
        ...RATIOS.map((each) => withRatio(settings, each)),
      ],
      notes: [
        'Puts of new keys, all techniques; CurSegments of 1 KB. A ratio of 8, and 64 segments at',
        'first (RACE: 32 subtables of 1,536 slots), unless a row says otherwise.',
        'Ratios: 16 clients, as many records put as there are at first.',
      ],
    };
  },
};

function beside({ model, ...settings }: Settings, setting: Setting): Row[] {
  const { name, clients, loaded = 0, puts, sephash, race, messages = 1 } = setting;
  const faster = { ...model, messagesPerSecond: messages * model.messagesPerSecond };
  const rateOf = (index: string, wishes: Readonly<Record<string, number>>) => {
    const load = { clients, loaded, puts, poolBytes: POOL_BYTES };
    return runPuts(
      { ...settings, model: faster },
      { kind: registeredKind(index, wishes), ...load },
    );
  };
  const ours = rateOf('sephash', { ...SEPHASH, ...sephash });
  const theirs = rateOf('race', { ...RACE, ...race });
  const [node] = ours.use.memoryNodes;
  return [
    { what: `${name}: RACE`, ours: theirs.rate / 1e6, unit: 'M/s' },
    {
      what: `${name}: SepHash`,
      ours: ours.rate / 1e6,
      unit: 'M/s',
      detail: `messages ${percent(node.messages, 0)}, atomics ${percent(node.atomics, 0)}`,
      figures: { ...ours.resizes, ...ours.retries },
    },
    { what: `${name}: to RACE`, ours: ours.rate / theirs.rate, unit: 'x' },
  ];
}

function withRatio(settings: Settings, { ratio, records, depth, what }: (typeof RATIOS)[number]) {
  const shape = { segmentBytes: 1024, ratio, initialDepth: depth, maxDepth: MAX_DEPTH };
  const kind = registeredKind('sephash', shape);
  const load = { clients: 16, loaded: records, puts: records, poolBytes: POOL_BYTES };
  const { rate, resizes, retries, use } = runPuts(settings, { kind, ...load });
  const [node] = use.memoryNodes;
  return {
    what: `ratio ${ratio}, ${records} records, ${what}`,
    ours: rate / 1e6,
    unit: 'M/s',
    detail: `messages ${percent(node.messages, 0)}, link out ${percent(node.outbound, 0)}`,
    figures: { ...resizes, ...retries },
  } satisfies Row;
}
