import type { ChildProcess } from 'node:child_process';
import { TcpFabric } from '../../src/fabrics/tcp/client/tcp-fabric.ts';
import { HEAD_BYTES } from '../../src/fabrics/tcp/wire.ts';
import { Prng } from '../../src/random/prng.ts';
import { Batch, type Completion, Scratch } from '../../src/verbs/index.ts';
import type { Cleanup } from '../support/cleanup.ts';
import { runBytes, runFrames } from './echo-client.ts';
import { endProcess, firstMessage, startProcess } from './processes.ts';

const READ_BYTES = 64;
const PIECE_BYTES = 2 ** 22;
const NODE_BYTES = 2 ** 28;
/** Memory that fits into the caches of the node's processor, as the echo's buffers do. */
const NEAR_BYTES = 2 ** 18;
const BATCH_SIZES = [1, 2, 4, 8, 16, 32, 64, 128];
/** Batches in flight together: one, as many as a busy client has, many more. */
const WIDTHS = [1, 64, 1024];
/** At most this many verbs in flight together, so that they fit into the kernel's buffers. */
const VERBS_IN_FLIGHT_MAX = 2 ** 13;
const ADDRESSES = 2 ** 14;

const KINDS = ['near', 'far', 'frames', 'bytes'] as const;
type Kind = (typeof KINDS)[number];

export interface Cost {
  /** Verbs per second, or the equivalent of an echo. */
  rate: number;
  /** Processor microseconds of both ends per verb, which a busy machine affects less. */
  micros: number;
}

interface VerbRate {
  batch: number;
  width: number;
  /** READs of lines that are in the caches, and of lines of 256 MiB. */
  near: Cost;
  far: Cost;
  /** The same frames without verbs, and the same bytes without frames. */
  frames: Cost;
  bytes: Cost;
}

type Rivals = Record<Kind, { other: ChildProcess; run: () => Promise<number> }>;

/** READs per second of one client, beside two kinds of echo; the rivals alternate. */
export async function* measureVerbs(
  cleanup: Cleanup,
  rounds: number,
  ms: number,
): AsyncGenerator<VerbRate> {
  const node = startProcess(cleanup, 'node-process', [String(NODE_BYTES)]);
  const port = await firstMessage<number>(node);
  const fabric = await TcpFabric.connect([{ host: '127.0.0.1', port }]);
  await touchAll(fabric, NODE_BYTES);
  for (const batch of BATCH_SIZES) {
    const asked = HEAD_BYTES + 8 * batch;
    const answered = HEAD_BYTES + READ_BYTES * batch;
    const sizes = [String(asked), String(answered)];
    const frames = startProcess(cleanup, 'echo-process', ['frames', ...sizes]);
    const framesPort = await firstMessage<number>(frames);
    const bytes = startProcess(cleanup, 'echo-process', ['bytes', ...sizes]);
    const bytesPort = await firstMessage<number>(bytes);
    for (const width of WIDTHS) {
      if (width > 1 && width * batch > VERBS_IN_FLIGHT_MAX) continue;
      const task = { asked, answered, width, ms };
      const lanes = new Lanes(fabric, batch, width);
      const rivals: Rivals = {
        near: { other: node, run: () => lanes.run(ms, NEAR_BYTES) },
        far: { other: node, run: () => lanes.run(ms, NODE_BYTES) },
        frames: { other: frames, run: () => runFrames({ ...task, port: framesPort }) },
        bytes: { other: bytes, run: () => runBytes({ ...task, port: bytesPort }) },
      };
      yield { batch, width, ...(await compare(rivals, batch, rounds, ms)) };
    }
    await Promise.all([endProcess(frames), endProcess(bytes)]);
  }
  fabric.close();
  await endProcess(node);
}

async function compare(rivals: Rivals, batch: number, rounds: number, ms: number) {
  const samples = new Map<Kind, Cost[]>(KINDS.map((kind) => [kind, []]));
  // The first round is a warm-up.
  for (let round = -1; round < rounds; round++) {
    for (const kind of KINDS) {
      const { other, run } = rivals[kind];
      const before = await spent(other);
      const rate = batch * (await run());
      const micros = ((await spent(other)) - before) / ((rate * ms) / 1000);
      if (round >= 0) samples.get(kind)?.push({ rate, micros });
    }
  }
  // The best round is the one that other processes disturbed least, of both rivals alike.
  const best = (kind: Kind): Cost => {
    const all = samples.get(kind) ?? [];
    return {
      rate: Math.max(...all.map(({ rate }) => rate)),
      micros: Math.min(...all.map(({ micros }) => micros)),
    };
  };
  return {
    near: best('near'),
    far: best('far'),
    frames: best('frames'),
    bytes: best('bytes'),
  };
}

/** Processor time of this process and the other one, in microseconds. */
async function spent(other: ChildProcess): Promise<number> {
  const { user, system } = process.cpuUsage();
  const answered = firstMessage<number>(other);
  other.send('cpu');
  return user + system + (await answered);
}

/** Touches the node's memory, so that the system has allocated it before the measurement. */
export async function touchAll(fabric: TcpFabric, bytes: number): Promise<void> {
  const zeros = new Scratch(PIECE_BYTES);
  for (let at = 0; at < bytes; at += PIECE_BYTES) {
    const batch = new Batch().write(at, PIECE_BYTES, zeros, 0);
    await new Promise<void>((resolve, reject) => {
      const completed = (error: unknown) => (error === undefined ? resolve() : reject(error));
      fabric.post(batch, { completed });
    });
  }
}

/** Batches in flight together, each with its own local memory. */
export class Lanes {
  readonly #fabric: TcpFabric;
  readonly #size: number;
  readonly #width: number;
  readonly #lanes: readonly { batch: Batch; scratch: Scratch }[];
  #next = 0;

  constructor(fabric: TcpFabric, size: number, width: number) {
    this.#fabric = fabric;
    this.#size = size;
    this.#width = width;
    this.#lanes = Array.from({ length: width }, () => {
      return { batch: new Batch(), scratch: new Scratch(size * READ_BYTES) };
    });
  }

  /** Batches per second. READs are of random lines of the first `reach` bytes. */
  async run(ms: number, reach: number): Promise<number> {
    const prng = Prng.fromSeed(this.#size);
    const addresses = Float64Array.from(
      { length: ADDRESSES },
      () => prng.below(reach / READ_BYTES) * READ_BYTES,
    );
    let done = 0;
    let running = true;
    let under = this.#width;
    const start = performance.now();
    await new Promise<void>((resolve, reject) => {
      for (const { batch, scratch } of this.#lanes) {
        const completion: Completion = {
          completed: (error) => {
            if (error !== undefined) return reject(error);
            done++;
            if (running) return post();
            if (--under === 0) resolve();
          },
        };
        const post = () => {
          this.#fill(batch, scratch, addresses);
          this.#fabric.post(batch, completion);
        };
        post();
      }
      setTimeout(() => {
        running = false;
      }, ms);
    });
    return (1000 * done) / (performance.now() - start);
  }

  #fill(batch: Batch, scratch: Scratch, addresses: Float64Array): void {
    const size = this.#size;
    let next = this.#next;
    batch.clear();
    for (let row = 0; row < size; row++) {
      const address = addresses[next++ & (ADDRESSES - 1)];
      batch.read(address, READ_BYTES, scratch, row * READ_BYTES);
    }
    this.#next = next & (ADDRESSES - 1);
  }
}
