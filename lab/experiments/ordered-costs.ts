/**
 * Measures processor time, verbs and bytes per operation of ordered stores, to explain the times
 * that `stepwell-lab bench` measures. One process runs one peer after another, with the same keys.
 */
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Prng } from '../../src/random/prng.ts';
import type { Traffic } from '../../src/store/api.ts';
import { destroySync } from '../../src/store/open.ts';
import type { SyncPeer } from '../bench/peers/peer.ts';
import { openPeer } from '../bench/peers/peers.ts';
import { ORDERED } from '../bench/plan.ts';
import { PEERS, type PeerName, SCAN_RECORDS } from '../bench/protocol.ts';
import { Cleanup } from '../support/cleanup.ts';
import { describeMachine } from '../support/machine.ts';
import { parseOptions, UsageError } from '../support/options.ts';
import { figure, table } from '../support/text.ts';
import { KeyGenerator, ValueGenerator } from '../workloads/index.ts';

const SPEC = {
  records: { kind: 'integer', fallback: 300_000, minimum: 1000, help: 'records of each store' },
  operations: {
    kind: 'integer',
    fallback: 200_000,
    minimum: 100,
    help: 'gets; of other operations, a share of it',
  },
  rounds: { kind: 'integer', fallback: 3, minimum: 1, help: 'of each row; the fastest counts' },
  only: { kind: 'text', fallback: 'lmdb,chime', help: 'some of the synchronous peers' },
  url: { kind: 'text', fallback: '', help: 'pool to use; default shm:ordered-<pid>' },
  seed: { kind: 'integer', fallback: 1, help: 'seed of the requests' },
  json: { kind: 'text', fallback: '', help: 'file to write every figure to' },
} as const;

const BYTES_A_RECORD = 640;
const BYTES_BASE = 2 ** 28;
const PUT_SHARE = 0.4;
const SCAN_SHARE = 0.02;

interface Row {
  peer: string;
  operation: string;
  /** CPU time of this process, which does not include that of other programs. */
  cpuNanoseconds: number;
  /** Per operation; undefined where the peer does not count it. */
  traffic: Traffic | undefined;
}

/** An operation, and the keys to run it on. */
interface Course {
  operation: string;
  keys: readonly string[];
  rounds: number;
  run(peer: SyncPeer, key: string, i: number): void;
}

function courses(options: { records: number; operations: number; rounds: number; seed: number }) {
  const { records, operations, rounds, seed } = options;
  const keys = new KeyGenerator();
  const values = new ValueGenerator();
  const all = Array.from({ length: records }, (_, i) => keys.string(i));
  const some = (count: number) => {
    const random = Prng.fromSeed(seed);
    return Array.from({ length: Math.ceil(count) }, () => all[random.below(records)]);
  };
  let touched = 0;
  const use = (value: Uint8Array) => {
    touched += value[0];
  };
  const value = values.buffer(0, 1);
  const list: Course[] = [
    { operation: 'insert', keys: all, rounds: 1, run: (peer, key) => peer.set(key, value) },
    { operation: 'get', keys: some(operations), rounds, run: (peer, key) => use(found(peer, key)) },
    {
      operation: 'set',
      keys: some(PUT_SHARE * operations),
      rounds,
      run: (peer, key) => peer.set(key, value),
    },
    {
      operation: `scan(${SCAN_RECORDS})`,
      keys: some(SCAN_SHARE * operations),
      rounds,
      run: (peer, key) => peer.scan?.(key, SCAN_RECORDS, use),
    },
  ];
  return { list, touched: () => touched };
}

function found(peer: SyncPeer, key: string): Uint8Array {
  const value = peer.get(key);
  if (value === undefined) throw new Error(`key ${key} is not there`);
  return value;
}

function measure(name: string, peer: SyncPeer, course: Course): Row {
  const { operation, keys, rounds } = course;
  const before = trafficOf(peer);
  let least = Number.POSITIVE_INFINITY;
  for (let round = 0; round < rounds; round++) {
    const begin = process.cpuUsage();
    for (let i = 0; i < keys.length; i++) course.run(peer, keys[i], i);
    const { user, system } = process.cpuUsage(begin);
    least = Math.min(least, (1000 * (user + system)) / keys.length);
  }
  const after = trafficOf(peer);
  const traffic = after && before && perOperation(before, after, keys.length * rounds);
  return { peer: name, operation, cpuNanoseconds: least, traffic };
}

function trafficOf(peer: SyncPeer): Traffic | undefined {
  return (peer.describe?.().store as { traffic: Traffic } | undefined)?.traffic;
}

function perOperation(before: Traffic, after: Traffic, operations: number): Traffic {
  const names = Object.keys(after) as (keyof Traffic)[];
  const each = names.map((name) => [name, (after[name] - before[name]) / operations]);
  return Object.fromEntries(each) as unknown as Traffic;
}

function describe(rows: readonly Row[]): string {
  const head = ['peer', 'operation', 'CPU ns', 'trips', 'READs', 'WRITEs', 'CASes', 'B read'];
  const cells = rows.map(({ peer, operation, cpuNanoseconds, traffic: t }) => {
    const counts = t
      ? [t.roundTrips, t.reads, t.writes, t.compareAndSwaps, t.bytesRead].map(figure)
      : ['-', '-', '-', '-', '-'];
    return [peer, operation, figure(cpuNanoseconds), ...counts];
  });
  return table(head, cells, 2);
}

function placeOf(peer: PeerName, given: string, cleanup: Cleanup): string {
  if (peer === 'lmdb') {
    const base = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();
    const directory = mkdtempSync(join(base, 'stepwell-ordered-'));
    cleanup.add(() => rmSync(directory, { recursive: true, force: true }));
    return directory;
  }
  const url = `${given === '' ? `shm:ordered-${process.pid}` : given}-${peer}`;
  cleanup.add(() => destroySync(url, { force: true }));
  return url;
}

export async function main(argv: string[]): Promise<void> {
  const options = parseOptions('stepwell-lab ordered-costs', SPEC, argv);
  const { list, touched } = courses(options);
  const cleanup = new Cleanup();
  const rows: Row[] = [];
  try {
    for (const name of options.only.split(',')) {
      const peer = PEERS.find((one) => one === name);
      if (peer === undefined) throw new UsageError(`no peer is called ${name}`);
      const capacity = BYTES_BASE + BYTES_A_RECORD * options.records;
      const place = placeOf(peer, options.url, cleanup);
      const settings = { records: options.records, place, capacity, noSync: false };
      const opened = await openPeer({ peer, ...settings, keepKeys: true });
      if (opened.kind !== 'sync') throw new UsageError(`${name} is not a synchronous peer`);
      try {
        for (const course of list) {
          const isScan = course.operation.startsWith('scan');
          if (!isScan || ORDERED.includes(peer)) rows.push(measure(name, opened, course));
        }
      } finally {
        await opened.close();
      }
    }
  } finally {
    await cleanup.run();
  }
  console.log(describe(rows));
  if (options.json !== '') {
    const whole = { options, machine: describeMachine(), rows, touched: touched() };
    writeFileSync(options.json, `${JSON.stringify(whole, null, 2)}\n`);
  }
}
