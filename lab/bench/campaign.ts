import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Cleanup } from '../support/cleanup.ts';
import { roomForPool } from '../support/machine.ts';
import { mebibytes } from '../support/text.ts';
import { Crew } from './crew.ts';
import {
  LARGE_LOAD,
  LARGE_PEERS,
  LOAD,
  largeWorkloads,
  loadTasks,
  mainWorkloads,
  tasksOf,
  type Workload,
} from './plan.ts';
import { indexOf, type PeerName, type PeerSettings } from './protocol.ts';
import { startRedisServer } from './redis-server.ts';
import type { Sample } from './results.ts';
import type { BenchSettings } from './settings.ts';

export interface Outcome {
  samples: Sample[];
  /** Parts that did not run, with the reason; `failed` if they should have. */
  skipped: { part: string; reason: string; failed: boolean }[];
  /** What each peer reported about itself at the end. */
  facts: Record<string, Record<string, unknown>>;
}

const VERIFIED = 1000;
/** At most this many bytes of a pool per record: block, slots at half load, directory. */
const POOL_BYTES_PER_RECORD = 160;
/** Factor for indexes that need more while they grow. Unused memory of a pool costs nothing. */
const ROOMY = 4;
const POOL_BASE = 256 * 2 ** 20;

/**
 * Runs all parts. Peers alternate within a round, so that a slow minute of the machine affects all.
 */
export class Campaign {
  readonly #settings: BenchSettings;
  readonly #cleanup: Cleanup;
  readonly #say: (line: string) => void;
  readonly #outcome: Outcome = { samples: [], skipped: [], facts: {} };

  constructor(settings: BenchSettings, cleanup: Cleanup, say: (line: string) => void) {
    this.#settings = settings;
    this.#cleanup = cleanup;
    this.#say = say;
  }

  async run(): Promise<Outcome> {
    await this.#mainPart();
    await this.#largePart();
    return this.#outcome;
  }

  async #mainPart(): Promise<void> {
    const { records, rounds } = this.#settings;
    const crews = new Map<PeerName, Crew>();
    for (const peer of this.#settings.peers) {
      const crew = await this.#start(peer);
      if (crew !== undefined) crews.set(peer, crew);
    }
    const parts = loadTasks(records, rounds + 1);
    for (const [round, task] of parts.entries()) {
      this.#say(`load ${round + 1}/${parts.length}`);
      for (const [peer, crew] of crews) await this.#sample(crew, LOAD, peer, round, [task]);
    }
    for (const crew of crews.values()) await crew.verify(VERIFIED, this.#settings.seed);
    await this.#rounds(mainWorkloads(), crews);
    for (const [peer, crew] of crews) {
      await crew.verify(VERIFIED, this.#settings.seed + 1);
      this.#outcome.facts[peer] = await crew.describe();
      await crew.end();
    }
  }

  async #rounds(
    workloads: readonly Workload[],
    crews: Map<PeerName, Crew>,
    records = this.#settings.records,
  ): Promise<void> {
    const { rounds, operations, seed } = this.#settings;
    for (let round = 0; round <= rounds; round++) {
      this.#say(round === 0 ? 'warm-up round' : `round ${round}/${rounds}`);
      for (const [place, workload] of workloads.entries()) {
        const tasks = tasksOf(workload, place, round, { operations, seed, records });
        for (const peer of workload.peers) {
          const crew = crews.get(peer);
          if (crew !== undefined) await this.#sample(crew, workload.name, peer, round, tasks);
        }
      }
    }
  }

  async #sample(
    crew: Crew,
    workload: string,
    peer: PeerName,
    round: number,
    tasks: Parameters<Crew['run']>[0],
  ): Promise<void> {
    const timed = await crew.run(tasks);
    if (round === 0) return;
    this.#outcome.samples.push({ workload, peer, round, processes: tasks.length, ...timed });
  }

  /** Keeps all its peers open together, so that they can alternate here too. */
  async #largePart(): Promise<void> {
    const { large, url, seed } = this.#settings;
    const peers = LARGE_PEERS.filter((peer) => this.#settings.peers.includes(peer));
    if (large === 0 || peers.length === 0) return;
    const needed = peers.length * poolCapacity(large);
    const room = roomForPool(url);
    if (needed > room) {
      const reason = `${large} records may need ${mebibytes(needed)} of ${mebibytes(room)} free`;
      this.#outcome.skipped.push({ part: 'large', reason, failed: false });
      return;
    }
    const crews = new Map<PeerName, Crew>();
    for (const peer of peers) {
      const crew = await this.#start(peer, large);
      if (crew === undefined) continue;
      crews.set(peer, crew);
      this.#say(`load of ${large} records: ${peer}`);
      const row = { workload: LARGE_LOAD, peer, round: 1, processes: 1 } as const;
      this.#outcome.samples.push({ ...row, ...(await crew.loadAll()) });
      await crew.verify(VERIFIED, seed);
    }
    await this.#rounds(largeWorkloads(), crews, large);
    for (const [peer, crew] of crews) {
      this.#outcome.facts[peer === 'stepwell' ? 'large' : `large ${peer}`] = await crew.describe();
      await crew.end();
    }
  }

  /** Starts a peer's processes, and registers their cleanup. Records a peer that cannot start. */
  async #start(peer: PeerName, large = 0): Promise<Crew | undefined> {
    const shared = peer === 'lmdb' || indexOf(peer) !== undefined;
    try {
      const place = await this.#place(peer, large > 0);
      const records = large || this.#settings.records;
      // Inserts into a large store come on top of its records, but add little.
      const roomy = large === 0 && peer !== 'stepwell' ? ROOMY : 1;
      const capacity = peer === 'lmdb' ? lmdbCapacity(records) : roomy * poolCapacity(records);
      const noSync = this.#settings.lmdbNoSync;
      const keepKeys = large === 0;
      const settings: PeerSettings = { peer, records, place, capacity, noSync, keepKeys };
      const crew = await Crew.start(settings, shared && large === 0 ? 2 : 1);
      this.#cleanup.add(() => crew.end());
      return crew;
    } catch (error) {
      const part = large > 0 ? 'large' : peer;
      this.#outcome.skipped.push({ part, reason: (error as Error).message, failed: true });
      return undefined;
    }
  }

  async #place(peer: PeerName, large: boolean): Promise<string> {
    if (peer === 'map') return '';
    if (peer === 'redis') {
      const server = await startRedisServer();
      this.#cleanup.add(() => server.stop());
      return String(server.port);
    }
    if (peer === 'lmdb' || peer === 'level') {
      const base = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();
      const directory = mkdtempSync(join(base, `stepwell-bench-${peer}-`));
      this.#cleanup.add(() => rmSync(directory, { recursive: true, force: true }));
      return directory;
    }
    const suffix = peer === 'stepwell' ? '' : `-${peer}`;
    const url = `${this.#settings.url}${suffix}${large ? '-large' : ''}`;
    this.#cleanup.add(async () => {
      const { destroySync } = await import('../../src/store/open.ts');
      destroySync(url, { force: true });
    });
    return url;
  }
}

function poolCapacity(records: number): number {
  return POOL_BASE + POOL_BYTES_PER_RECORD * records;
}

/** Random inserts leave B+ tree pages half to two thirds full, and writes copy pages. */
function lmdbCapacity(records: number): number {
  return POOL_BASE + 512 * records;
}
