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
    help: 'runs of each case; the median counts',
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

interface Peer {
  readonly name: PeerName;
  readonly values: ValueKind;
  readonly reader: Asked<ReaderMessage, ReadResult | ColdResult>;
  readonly writer: Asked<WriterMessage, object>;
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
      const peers = await startPeers(values, options, cleanup);
      for (const changes of options.changes.split(',').filter(Boolean).map(Number)) {
        runs.push(...(await timeReads(peers, changes, options)));
        if (changes > 0) staleness.push(...(await countStale(peers, changes, options)));
      }
      runs.push(...(await timeMisses(peers, options)));
      for (const { reader, writer } of peers) await Promise.all([reader.end(), writer.end()]);
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

/** Gives each peer a filled store of its own, and a process that has read all of it. */
async function startPeers(values: ValueKind, options: Options, cleanup: Cleanup): Promise<Peer[]> {
  const folder = mkdtempSync('/dev/shm/stepwell-near-');
  cleanup.add(() => rmSync(folder, { recursive: true, force: true }));
  const names = options.peers.split(',') as PeerName[];
  const redis = names.includes('redis near') ? await startRedisServer() : undefined;
  cleanup.add(() => redis?.stop());
  const peers: Peer[] = [];
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
    const peer: Peer = { name, values, reader: new Asked('reader'), writer: new Asked('writer') };
    cleanup.add(() => peer.reader.end());
    cleanup.add(() => peer.writer.end());
    await peer.writer.ask({ kind: 'open', peer: name, place });
    await peer.reader.ask({ kind: 'open', peer: name, place });
    peers.push(peer);
  }
  return peers;
}

async function timeReads(
  peers: readonly Peer[],
  changes: number,
  options: Options,
): Promise<Run[]> {
  const runs: Run[] = [];
  for (let round = 0; round < options.rounds; round++) {
    for (const distribution of ['uniform', 'zipf'] as const) {
      for (const heldKeys of [true, false]) {
        const order = round % 2 === 0 ? peers : peers.toReversed();
        for (const peer of order) {
          const task = { distribution, heldKeys, seed: round, checked: false };
          const { nanoseconds } = await readWhileChanging(peer, task, changes, options);
          const words = `${distribution}, ${heldKeys ? 'held' : 'new'} keys`;
          runs.push({ peer: peer.name, values: peer.values, changes, task: words, nanoseconds });
        }
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
async function timeMisses(peers: readonly Peer[], options: Options): Promise<Run[]> {
  const runs: Run[] = [];
  for (let round = 0; round < options.rounds; round++) {
    for (const { name, values, reader } of peers) {
      if (name !== 'stepwell near') continue;
      const result = await reader.ask({ kind: 'cold' });
      for (const [task, costs] of Object.entries(result as ColdResult)) {
        for (const [peer, nanoseconds] of Object.entries(costs)) {
          runs.push({ peer, values, changes: 0, task, nanoseconds });
        }
      }
    }
  }
  return runs;
}

function report(runs: readonly Run[], staleness: readonly Staleness[]): string {
  const caseOf = ({ values, changes, task }: Run) => `${values}|${changes}|${task}`;
  const rows = [...new Set(runs.map(caseOf))].flatMap((name) => {
    const ofCase = runs.filter((run) => caseOf(run) === name);
    const cost = (peer: string) =>
      median(ofCase.filter((run) => run.peer === peer).map(({ nanoseconds }) => nanoseconds));
    const ours = cost('stepwell near');
    const [values, changes, task] = name.split('|');
    return [...new Set(ofCase.map(({ peer }) => peer))].map((peer) => {
      const costs = [grouped(cost(peer)), figure(ours / cost(peer))];
      return [values, task, changes, peer, ...costs];
    });
  });
  const header = ['values', 'reads', 'changes %/s', 'peer', 'ns a read', 'near / peer'];
  const counted = staleness.map(({ peer, changes, reads, stale }) => {
    return [peer, String(changes), grouped(reads), grouped(stale)];
  });
  const tables = [table(header, rows, 4)];
  if (counted.length > 0) tables.push(table(['peer', 'changes %/s', 'reads', 'stale'], counted));
  return tables.join('\n\n');
}
