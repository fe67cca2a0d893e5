/**
 * Reads of objects that a process caches: Stepwell with `nearCache` beside lru-cache, lmdb and
 * node-redis with its client-side cache. Other processes change keys meanwhile, and an oracle
 * counts stale reads.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { loadavg } from 'node:os';
import { join } from 'node:path';
import { destroySync } from '../../src/store/open.ts';
import { startRedisServer } from '../bench/redis-server.ts';
import { Cleanup } from '../support/cleanup.ts';
import { describeMachine } from '../support/machine.ts';
import { parseOptions } from '../support/options.ts';
import { median } from '../support/statistics.ts';
import { figure, grouped, table } from '../support/text.ts';
import {
  type ColdResult,
  PEER_NAMES,
  type PeerName,
  type Place,
  type ReadResult,
  type ReadTask,
  type ValueKind,
} from './plan.ts';
import { Asked } from './processes.ts';
import type { ReaderMessage } from './reader.ts';
import { Versions } from './versions.ts';
import type { WriterMessage } from './writer.ts';

const SPEC = {
  index: { kind: 'text', fallback: 'race', help: 'kind of index of the store' },
  keys: { kind: 'integer', fallback: 100_000, minimum: 100, help: 'records' },
  reads: { kind: 'integer', fallback: 500_000, minimum: 100, help: 'reads of a run' },
  rounds: {
    kind: 'integer',
    fallback: 5,
    minimum: 1,
    help: 'runs of each case, each in new processes; the median counts',
  },
  values: { kind: 'text', fallback: 'json,text', help: 'json (450 bytes) and text (100 bytes)' },
  changes: {
    kind: 'text',
    fallback: '0,1,10',
    help: "percent of the keys that another process changes per second; '' times only misses",
  },
  peers: { kind: 'text', fallback: PEER_NAMES.join(','), help: 'names, with commas' },
  json: { kind: 'text', fallback: '', help: 'file to write every figure to' },
} as const;

type Options = ReturnType<typeof parseOptions<typeof SPEC>>;

/** node-redis awaits every read, even one that its cache answers. */
const FEWER_READS_OF_REDIS = 5;

/** A store of a peer's own, and the process that changes it. */
interface Filled {
  readonly name: PeerName;
  readonly place: Place;
  readonly writer: Asked<WriterMessage, object>;
}

/** With a process that has read all of it. */
interface Peer extends Filled {
  readonly reader: Asked<ReaderMessage, ReadResult | ColdResult>;
}

interface Run {
  readonly peer: string;
  readonly values: ValueKind;
  readonly changes: number;
  readonly task: string;
  readonly nanoseconds: number;
}

interface Staleness {
  readonly peer: PeerName;
  readonly changes: number;
  readonly reads: number;
  readonly stale: number;
}

export async function main(argv: string[]): Promise<void> {
  const options = parseOptions('stepwell-lab near-reads', SPEC, argv);
  const cleanup = new Cleanup();
  const loadBefore = loadavg()[0];
  const runs: Run[] = [];
  const staleness: Staleness[] = [];
  try {
    for (const values of options.values.split(',') as ValueKind[]) {
      const stores = await fillStores(values, options, cleanup);
      const changes = options.changes.split(',').filter(Boolean).map(Number);
      for (let round = 0; round < options.rounds; round++) {
        const peers = await startReaders(stores, cleanup);
        for (const rate of changes) {
          runs.push(...(await timeReads(peers, rate, round, options)));
          const isCounted = rate > 0 && round === 0;
          if (isCounted) staleness.push(...(await countStale(peers, rate, options)));
        }
        runs.push(...(await timeMisses(peers)));
        for (const { reader } of peers) await reader.end();
      }
      for (const { writer } of stores) await writer.end();
    }
    console.log(report(runs, staleness));
    console.log(
      `\nload average: ${loadBefore.toFixed(1)} before, ${loadavg()[0].toFixed(1)} after`,
    );
    if (options.json !== '') {
      const whole = { options, machine: describeMachine(), loadBefore, runs, staleness };
      writeFileSync(options.json, `${JSON.stringify(whole, null, 2)}\n`);
    }
  } finally {
    await cleanup.run();
  }
}

async function fillStores(
  values: ValueKind,
  options: Options,
  cleanup: Cleanup,
): Promise<Filled[]> {
  const folder = mkdtempSync('/dev/shm/stepwell-near-');
  cleanup.add(() => rmSync(folder, { recursive: true, force: true }));
  const names = options.peers.split(',') as PeerName[];
  const redis = names.includes('redis near') ? await startRedisServer() : undefined;
  cleanup.add(() => redis?.stop());
  const stores: Filled[] = [];
  for (const [i, name] of names.entries()) {
    const place: Place = {
      url: `shm:stepwell-near-${process.pid}-${values}-${i}`,
      index: options.index,
      lmdb: join(folder, `lmdb-${i}`),
      redisPort: redis?.port ?? 0,
      versions: join(folder, `versions-${i}`),
      values,
      keys: options.keys,
    };
    mkdirSync(place.lmdb);
    Versions.create(place.versions, place.keys).close();
    if (name.startsWith('stepwell')) cleanup.add(() => destroySync(place.url, { force: true }));
    const store: Filled = { name, place, writer: new Asked('writer') };
    cleanup.add(() => store.writer.end());
    await store.writer.ask({ kind: 'open', peer: name, place });
    stores.push(store);
  }
  return stores;
}

/**
 * Each round has new processes: how fast a cache is depends on where in memory its entries are and
 * on what V8 has compiled, which both stay as they are while a process lives.
 */
async function startReaders(stores: readonly Filled[], cleanup: Cleanup): Promise<Peer[]> {
  const peers: Peer[] = [];
  for (const store of stores) {
    const peer: Peer = { ...store, reader: new Asked('reader') };
    cleanup.add(() => peer.reader.end());
    await peer.reader.ask({ kind: 'open', peer: store.name, place: store.place });
    peers.push(peer);
  }
  return peers;
}

async function timeReads(
  peers: readonly Peer[],
  changes: number,
  round: number,
  options: Options,
): Promise<Run[]> {
  const runs: Run[] = [];
  const order = round % 2 === 0 ? peers : peers.toReversed();
  for (const distribution of ['uniform', 'zipf'] as const) {
    for (const heldKeys of [true, false]) {
      for (const peer of order) {
        const task = { distribution, heldKeys, seed: round, checked: false };
        const { nanoseconds } = await readWhileChanging(peer, task, changes, options);
        const words = `${distribution}, ${heldKeys ? 'held' : 'new'} keys`;
        const { values } = peer.place;
        runs.push({ peer: peer.name, values, changes, task: words, nanoseconds });
      }
    }
  }
  return runs;
}

async function countStale(
  peers: readonly Peer[],
  changes: number,
  options: Options,
): Promise<Staleness[]> {
  const counted: Staleness[] = [];
  for (const peer of peers) {
    if (peer.name === 'lru-cache') continue;
    const task = { distribution: 'zipf', heldKeys: true, seed: 99, checked: true } as const;
    const { stale } = await readWhileChanging(peer, task, changes, options);
    counted.push({ peer: peer.name, changes, reads: readsOf(peer, options), stale });
  }
  return counted;
}

async function readWhileChanging(
  { name, reader, writer }: Peer,
  task: Omit<ReadTask, 'reads'>,
  changes: number,
  options: Options,
): Promise<ReadResult> {
  const perSecond = (options.keys * changes) / 100;
  await writer.ask({ kind: 'change', perSecond });
  try {
    const reads = readsOf({ name }, options);
    return (await reader.ask({ kind: 'read', task: { ...task, reads } })) as ReadResult;
  } finally {
    await writer.ask({ kind: 'rest' });
  }
}

function readsOf({ name }: { name: PeerName }, { reads }: Options): number {
  return name === 'redis near' ? Math.ceil(reads / FEWER_READS_OF_REDIS) : reads;
}

/** The cost of a read that the near cache cannot answer, beside one of a handle without it. */
async function timeMisses(peers: readonly Peer[]): Promise<Run[]> {
  const runs: Run[] = [];
  for (const { name, place, reader } of peers) {
    if (name !== 'stepwell near') continue;
    const result = await reader.ask({ kind: 'cold' });
    for (const [task, costs] of Object.entries(result as ColdResult)) {
      for (const [peer, nanoseconds] of Object.entries(costs)) {
        runs.push({ peer, values: place.values, changes: 0, task, nanoseconds });
      }
    }
  }
  return runs;
}

function report(runs: readonly Run[], staleness: readonly Staleness[]): string {
  const caseOf = ({ values, changes, task }: Run) => `${values}|${changes}|${task}`;
  const rows = [...new Set(runs.map(caseOf))].flatMap((name) => {
    const ofCase = runs.filter((run) => caseOf(run) === name);
    const costsOf = (peer: string) =>
      ofCase.filter((run) => run.peer === peer).map(({ nanoseconds }) => nanoseconds);
    const ours = median(costsOf('stepwell near'));
    const [values, changes, task] = name.split('|');
    return [...new Set(ofCase.map(({ peer }) => peer))].map((peer) => {
      const costs = costsOf(peer);
      const spread = [median(costs), Math.min(...costs), Math.max(...costs)].map(grouped);
      return [values, task, changes, peer, ...spread, figure(ours / median(costs))];
    });
  });
  const costs = ['ns a read', 'fastest', 'slowest', 'near / peer'];
  const header = ['values', 'reads', 'changes %/s', 'peer', ...costs];
  const counted = staleness.map(({ peer, changes, reads, stale }) => {
    return [peer, String(changes), grouped(reads), grouped(stale)];
  });
  const tables = [table(header, rows, 4)];
  if (counted.length > 0) tables.push(table(['peer', 'changes %/s', 'reads', 'stale'], counted));
  return tables.join('\n\n');
}
