/**
 * Memory nodes on loopback: verbs beside a bare echo of the same frames, and the YCSB mixes of
 * every index beside Redis, in one run. Rivals alternate within a round, and the best round counts,
 * the one that other work on the machine disturbed least. Before the rounds, each client runs for
 * some processor time, so that its code is compiled.
 */
import { INDEX_KINDS, INDEX_NAMES } from '../../src/indexes/kinds.ts';
import type { IndexName } from '../../src/store/api.ts';
import { startRedisServer } from '../bench/redis-server.ts';
import { Cleanup } from '../support/cleanup.ts';
import { parseOptions, UsageError } from '../support/options.ts';
import { subjectNamed } from '../verification/subjects/index.ts';
import { Crew } from './crews.ts';
import { isOfScans, MIXES, type MixName } from './mixes.ts';
import { firstMessage, startProcess } from './processes.ts';
import { type Cost, measureVerbs } from './verb-rate.ts';

const OPTIONS = {
  rounds: { kind: 'integer', fallback: 7, minimum: 1, help: 'rounds, of which the best counts' },
  ms: { kind: 'integer', fallback: 300, minimum: 50, help: 'milliseconds of one measurement' },
  quick: {
    kind: 'flag',
    help: 'two minutes, to check that everything runs; its figures mean nothing',
  },
  records: { kind: 'integer', fallback: 100_000, minimum: 100, help: 'records of a store' },
  width: { kind: 'integer', fallback: 64, minimum: 1, help: 'operations of a client in flight' },
  clients: { kind: 'text', fallback: '1,2,4', help: 'numbers of client processes' },
  servers: { kind: 'flag', help: 'start a hash server and a skiplist server for hstore' },
  ucx: {
    kind: 'text',
    fallback: '',
    help: 'transports (tcp or posix): also run the indexes over ucx://',
  },
  at: {
    kind: 'text',
    fallback: '',
    help: 'an existing pool, such as ucx://node:7471; without Redis',
  },
  only: { kind: 'text', fallback: '', help: 'verbs, or some of the indexes, e.g. race,chime' },
} as const;
type Settings = ReturnType<typeof parseOptions<typeof OPTIONS>>;

const NODE_BYTES = 2 ** 31;
const ECHO_WANTED = 0.7;
const MANY_WANTED = 5;

const thousands = (rate: number) => `${(rate / 1000).toFixed(1)} k/s`.padStart(12);

async function verbs(cleanup: Cleanup, { rounds, ms }: Settings): Promise<void> {
  console.log(
    'READs of 64 bytes a second by one client, in its own process, beside an echo of the',
  );
  console.log('same frames without verbs (which counts) and of the same bytes without frames.');
  console.log(
    'near: lines in the caches; far: lines of 256 MiB. In brackets: processor us a verb.',
  );
  for await (const one of measureVerbs(cleanup, rounds, ms)) {
    const { near, far, frames, bytes } = one;
    const cost = ({ rate, micros }: Cost) => `${thousands(rate)} (${micros.toFixed(2)})`;
    const ratio = (mine: Cost, other: Cost) => (mine.rate / other.rate).toFixed(2);
    const time = (frames.micros / near.micros).toFixed(2);
    const verdict = near.rate / frames.rate >= ECHO_WANTED ? '' : `  (wanted ${ECHO_WANTED})`;
    const place = `batch ${String(one.batch).padStart(3)} x ${String(one.width).padStart(4)}`;
    const rates = `near${cost(near)}  far${cost(far)}  frames${cost(frames)}  bytes${cost(bytes)}`;
    const ratios = `near ${ratio(near, frames)}${verdict} far ${ratio(far, frames)}`;
    const beside = `by processor time ${time}; beside bytes ${ratio(near, bytes)}`;
    console.log(`  ${place} ${rates}  ${ratios}; ${beside}`);
  }
}

interface Rival {
  name: string;
  crew: Crew;
  ordered: boolean;
}

async function startRivals(
  cleanup: Cleanup,
  { records, only, servers, ucx, at }: Settings,
  clients: number,
): Promise<Rival[]> {
  const rivals: Rival[] = at === '' ? [await startRedis(cleanup, records, clients)] : [];
  for (const { manifest } of INDEX_KINDS) {
    if (only !== '' && !only.split(',').includes(manifest.name)) continue;
    const url = at === '' ? await startNode(cleanup) : `${at}/${manifest.name}`;
    const index = manifest.name as IndexName;
    const one = await Crew.start(cleanup, { kind: 'stepwell', url, index }, records, clients);
    if (servers && subjectNamed(index).servers) await startServers(cleanup, url, index);
    rivals.push({ name: index, crew: one, ordered: manifest.ordered });
    if (ucx === '') continue;
    const place = await startNode(cleanup, ucx);
    const target = { kind: 'stepwell', url: place, index } as const;
    const crew = await Crew.start(cleanup, target, records, clients);
    rivals.push({ name: `${index}/${ucx}`, crew, ordered: manifest.ordered });
  }
  return rivals;
}

async function startRedis(cleanup: Cleanup, records: number, clients: number): Promise<Rival> {
  const redis = await startRedisServer();
  cleanup.add(() => redis.stop());
  const target = { kind: 'redis', port: redis.port } as const;
  return {
    name: 'redis',
    crew: await Crew.start(cleanup, target, records, clients),
    ordered: true,
  };
}

/** Starts a memory node for one index; over UCX if given transports. */
async function startNode(cleanup: Cleanup, ...transports: string[]): Promise<string> {
  const node = startProcess(cleanup, 'node-process', [String(NODE_BYTES), ...transports]);
  const scheme = transports.length === 0 ? 'tcp' : 'ucx';
  return `${scheme}://127.0.0.1:${await firstMessage<number>(node)}`;
}

/** Starts each server as a process, and waits until it holds its role. */
async function startServers(cleanup: Cleanup, url: string, store: string): Promise<void> {
  for (const role of ['hash', 'skiplist']) {
    await firstMessage(startProcess(cleanup, 'server-process', [url, store, role]));
  }
}

async function mixes(settings: Settings, clients: number): Promise<void> {
  const { rounds, ms, width } = settings;
  const cleanup = new Cleanup();
  try {
    const rivals = await startRivals(cleanup, settings, clients);
    for (const { crew } of rivals) await crew.order({ kind: 'load' });
    const what = `${clients} client${clients === 1 ? '' : 's'}, ${width} in flight each`;
    console.log(`\nYCSB, ${settings.records} records, ${what}; in brackets: beside Redis`);
    console.log(
      'Scans are of 100 records; of Redis ZRANGEBYLEX … LIMIT 0 100, and but for "keys" an MGET.',
    );
    for (const mix of Object.keys(MIXES) as MixName[]) {
      const able = rivals.filter(({ ordered }) => ordered || !isOfScans(mix));
      const rates = new Map(able.map(({ name }) => [name, [] as number[]]));
      for (const { crew } of able) await crew.order({ kind: 'warm', mix, ms: 2 * ms, width });
      for (let round = 0; round < rounds; round++) {
        for (const { name, crew } of able) {
          rates.get(name)?.push(await crew.order({ kind: 'mix', mix, ms, width }));
        }
      }
      printMix(mix, rates);
    }
    if (clients === 1) await manyKeys(rivals, settings);
    for (const { crew } of rivals) await crew.end();
  } finally {
    await cleanup.run();
  }
}

function printMix(mix: MixName, rates: ReadonlyMap<string, readonly number[]>): void {
  const redis = rates.get('redis');
  const columns = [...rates].map(([name, samples]) => {
    const rate = Math.max(...samples);
    const ratio = redis && name !== 'redis' ? ` (${(rate / Math.max(...redis)).toFixed(2)})` : '';
    return `${name} ${thousands(rate).trim()}${ratio}`;
  });
  console.log(`  ${mix.padEnd(5)}  ${columns.join('   ')}`);
}

async function manyKeys(rivals: readonly Rival[], { rounds, ms }: Settings): Promise<void> {
  console.log(`\ngetMany of 64 beside single gets, one after the other (wanted ${MANY_WANTED})`);
  for (const { name, crew } of rivals) {
    const single: number[] = [];
    const many: number[] = [];
    for (let round = -1; round < rounds; round++) {
      const rates = [
        await crew.order({ kind: 'many', size: 1, ms }),
        await crew.order({ kind: 'many', size: 64, ms }),
      ];
      if (round < 0) continue;
      single.push(rates[0]);
      many.push(rates[1]);
    }
    const [one, all] = [Math.max(...single), Math.max(...many)];
    const ratio = (all / one).toFixed(1);
    console.log(`  ${name.padEnd(8)} ${thousands(one)} ${thousands(all)}  ratio ${ratio}`);
  }
}

const QUICK = { rounds: 1, ms: 50, records: 2000, clients: '1,2' };

function checkOnly(only: string): void {
  const known = ['verbs', ...INDEX_NAMES];
  const unknown = only.split(',').find((name) => name !== '' && !known.includes(name));
  if (unknown !== undefined) throw new UsageError(`--only ${unknown}: not of ${known.join(', ')}`);
}

export async function main(argv: string[]): Promise<void> {
  const given = parseOptions('stepwell-lab bench-tcp', OPTIONS, argv);
  checkOnly(given.only);
  const settings = given.quick ? { ...given, ...QUICK } : given;
  const cleanup = new Cleanup();
  try {
    if (settings.only === '' || settings.only === 'verbs') await verbs(cleanup, settings);
  } finally {
    await cleanup.run();
  }
  if (settings.only === 'verbs') return;
  for (const clients of settings.clients.split(',')) await mixes(settings, Number(clients));
}
