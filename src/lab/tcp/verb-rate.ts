import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { TcpFabric } from '../../fabrics/tcp/tcp-fabric.ts';
import { HEAD_BYTES } from '../../fabrics/tcp/wire.ts';
import { Prng } from '../../random/prng.ts';
import { Batch, type Completion, Scratch } from '../../verbs/index.ts';
import type { Cleanup } from '../support/cleanup.ts';
import { endProcess, firstMessage, median, startProcess } from './processes.ts';

const READ_BYTES = 64;
const PIECE_BYTES = 2 ** 22;
const NODE_BYTES = 2 ** 28;
/** Verbs that are under way together, whatever the size of a batch. */
const VERBS_IN_FLIGHT = 2048;
const BATCH_SIZES = [1, 2, 4, 8, 16, 32, 64, 128];

export interface VerbRate {
  batch: number;
  verbs: number;
  echoed: number;
  /** Processor time of both ends, in microseconds a verb: what a busy machine changes less. */
  verbMicros: number;
  echoMicros: number;
}

/** Processor time of this process and the other one, in microseconds. */
async function spent(other: ChildProcess): Promise<number> {
  const { user, system } = process.cpuUsage();
  const answered = firstMessage<number>(other);
  other.send('cpu');
  return user + system + (await answered);
}

/** What both ends of a measurement took of the processors, for each verb. */
async function costed(other: ChildProcess, verbs: () => Promise<number>, ms: number) {
  const before = await spent(other);
  const rate = await verbs();
  return { rate, micros: ((await spent(other)) - before) / ((rate * ms) / 1000) };
}

/** READs a second of one client, beside a bare echo of as many bytes, in alternating rounds. */
export async function measureVerbs(
  cleanup: Cleanup,
  rounds: number,
  ms: number,
): Promise<VerbRate[]> {
  const node = startProcess(cleanup, 'node-process', [String(NODE_BYTES)]);
  const port = await firstMessage<number>(node);
  const fabric = await TcpFabric.connect([{ host: '127.0.0.1', port }]);
  await touchAll(fabric);
  const rates: VerbRate[] = [];
  for (const batch of BATCH_SIZES) {
    const width = Math.max(4, Math.floor(VERBS_IN_FLIGHT / batch));
    const asked = HEAD_BYTES + 8 * batch;
    const answered = HEAD_BYTES + READ_BYTES * batch;
    const echo = startProcess(cleanup, 'echo-process', [String(asked), String(answered)]);
    const echoPort = await firstMessage<number>(echo);
    const verbs: { rate: number; micros: number }[] = [];
    const echoed: { rate: number; micros: number }[] = [];
    for (let round = 0; round < rounds; round++) {
      const ours = async () => batch * (await runVerbs(fabric, batch, width, ms));
      const bare = async () => batch * (await runEcho(echoPort, asked, answered, width, ms));
      verbs.push(await costed(node, ours, ms));
      echoed.push(await costed(echo, bare, ms));
    }
    await endProcess(echo);
    rates.push({
      batch,
      verbs: median(verbs.map(({ rate }) => rate)),
      echoed: median(echoed.map(({ rate }) => rate)),
      verbMicros: median(verbs.map(({ micros }) => micros)),
      echoMicros: median(echoed.map(({ micros }) => micros)),
    });
  }
  fabric.close();
  await endProcess(node);
  return rates;
}

/** Takes the node's memory from the system before anything is measured. */
async function touchAll(fabric: TcpFabric): Promise<void> {
  const zeros = new Scratch(PIECE_BYTES);
  for (let at = 0; at < NODE_BYTES; at += PIECE_BYTES) {
    const batch = new Batch().write(at, PIECE_BYTES, zeros, 0);
    await new Promise<void>((resolve, reject) => {
      const completed = (error: unknown) => (error === undefined ? resolve() : reject(error));
      fabric.post(batch, { completed });
    });
  }
}

/** Batches a second. Every READ is of another line. */
async function runVerbs(
  fabric: TcpFabric,
  size: number,
  width: number,
  ms: number,
): Promise<number> {
  const prng = Prng.fromSeed(size);
  const start = performance.now();
  let done = 0;
  let running = width;
  await new Promise<void>((resolve, reject) => {
    for (let i = 0; i < width; i++) {
      const batch = new Batch();
      const scratch = new Scratch(size * READ_BYTES);
      const completion: Completion = {
        completed(error) {
          if (error !== undefined) return reject(error);
          done++;
          if (performance.now() - start < ms) return post();
          if (--running === 0) resolve();
        },
      };
      const post = () => {
        batch.clear();
        for (let row = 0; row < size; row++) {
          const line = prng.below(NODE_BYTES / READ_BYTES);
          batch.read(line * READ_BYTES, READ_BYTES, scratch, row * READ_BYTES);
        }
        fabric.post(batch, completion);
      };
      post();
    }
  });
  return (1000 * done) / (performance.now() - start);
}

/** The same bytes with nothing behind them: what is answered is asked again in one send. */
async function runEcho(
  port: number,
  asked: number,
  answered: number,
  width: number,
  ms: number,
): Promise<number> {
  const socket = connect(port, '127.0.0.1');
  await once(socket, 'connect');
  socket.setNoDelay(true);
  const requests = Buffer.alloc(asked * width, 2);
  const start = performance.now();
  let done = 0;
  let waiting = 0;
  socket.write(requests);
  await new Promise<void>((resolve, reject) => {
    socket.on('error', reject);
    socket.on('data', (chunk) => {
      waiting += chunk.length;
      const whole = Math.floor(waiting / answered);
      waiting -= whole * answered;
      done += whole;
      if (performance.now() - start >= ms) resolve();
      else if (whole > 0) socket.write(requests.subarray(0, whole * asked));
    });
  });
  socket.destroy();
  return (1000 * done) / (performance.now() - start);
}
