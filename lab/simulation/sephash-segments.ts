import { percent } from '../support/text.ts';
import type { Experiment, Row, Settings } from './experiment.ts';
import { runPuts } from './puts.ts';
import { registeredKind } from './registered-kind.ts';
import { runSearches } from './searches.ts';

/** Few: large sizes make few segments, in which more clients would wait for each other. */
const CLIENTS = 16;
const POOL_BYTES = 2 ** 29;
/** Records that are loaded, and as many again that are put: every segment splits once. */
const RECORDS = 50_000;
const MAX_DEPTH = 14;
/** Average load of a MainSegment, as a share of its capacity. */
const FILL = 0.75;

interface Size {
  segmentBytes: number;
  ratio: number;
}

const CUR_SEGMENTS: readonly Size[] = [128, 256, 512, 1024, 2048].map((segmentBytes) => ({
  segmentBytes,
  ratio: 64,
}));
const MAIN_SEGMENTS: readonly Size[] = [8, 16, 32, 64].map((ratio) => ({
  segmentBytes: 1024,
  ratio,
}));
const RACE_SHAPE = { associativity: 8, groups: 64, initialDepth: 6, maxDepth: 12 };

interface Rates {
  puts: number;
  searches: number;
  detail: string;
}

/** How the sizes of CurSegments and MainSegments affect puts and searches. */
export const sepHashSegments: Experiment = {
  name: 'sephash-segments',
  run(settings) {
    const race = ratesOf(settings, 'race', RACE_SHAPE);
    const sizes = new Map<string, Rates>();
    const at = ({ segmentBytes, ratio }: Size) => {
      const key = `${segmentBytes}x${ratio}`;
      let rates = sizes.get(key);
      if (rates === undefined) {
        rates = ratesOf(settings, 'sephash', shapeOf({ segmentBytes, ratio }));
        sizes.set(key, rates);
      }
      return rates;
    };
    const name = ({ segmentBytes, ratio }: Size) => `CurSegment ${segmentBytes} B, ratio ${ratio}`;
    const rows = [
      ...rowsOf('RACE', race),
      ...CUR_SEGMENTS.flatMap((size) => rowsOf(name(size), at(size))),
      {
        what: 'puts: CurSegment 256 B to 2 KB (a)',
        ours: at(CUR_SEGMENTS[1]).puts / at(CUR_SEGMENTS[4]).puts,
        unit: 'x',
        published: 2,
      },
      ...MAIN_SEGMENTS.slice(0, -1).flatMap((size) => rowsOf(name(size), at(size))),
    ];
    const notes = [
      `${CLIENTS} clients, ${RECORDS} records at first, which are searched for; then as many are`,
      'put. In the paper’s (a) puts are faster with 256 B than with 128 B, and searches slow down',
      'as CurSegments shrink; in (b) puts gain from 32 to 8 and searches from larger ratios.',
    ];
    return { title: 'SepHash’s segment sizes (Figure 20)', rows, notes };
  },
};

/** Parameters with as many initial segments as the records fill. */
function shapeOf({ segmentBytes, ratio }: Size): Record<string, number> {
  const entries = (ratio * segmentBytes) / 8;
  const initialDepth = Math.max(1, Math.round(Math.log2(RECORDS / (FILL * entries))));
  return { segmentBytes, ratio, initialDepth, maxDepth: MAX_DEPTH };
}

function ratesOf(settings: Settings, index: string, wishes: Record<string, number>): Rates {
  const load = { clients: CLIENTS, poolBytes: POOL_BYTES };
  const searches = runSearches(settings, {
    ...load,
    kind: registeredKind(index, wishes),
    records: RECORDS,
  });
  const puts = runPuts(settings, {
    ...load,
    kind: registeredKind(index, wishes),
    loaded: RECORDS,
    puts: RECORDS,
  });
  const [node] = puts.use.memoryNodes;
  const resizes = Object.entries(puts.resizes).map(([name, count]) => `${name} ${count}`);
  const detail = [
    `link in ${percent(node.inbound, 0)}, out ${percent(node.outbound, 0)}`,
    `messages ${percent(node.messages, 0)}`,
    `p99 ${(puts.latencies.quantile(0.99) / 1000).toFixed(0)} us`,
    resizes.join(', '),
  ].join('; ');
  return { puts: puts.rate / 1e6, searches: searches.rate / 1e6, detail };
}

function rowsOf(name: string, { puts, searches, detail }: Rates): Row[] {
  return [
    { what: `puts, ${name}`, ours: puts, unit: 'M/s', detail },
    { what: `searches, ${name}`, ours: searches, unit: 'M/s' },
  ];
}
