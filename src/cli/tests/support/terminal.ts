import { EventEmitter } from 'node:events';
import { Readable } from 'node:stream';
import type { Program } from '../../command.ts';
import { STEPWELL } from '../../commands/index.ts';
import type { Context } from '../../context.ts';
import { run } from '../../run.ts';
import { Output, type Sink } from '../../terminal/output.ts';
import { FakePools } from './fake-pools.ts';

/** A sink that keeps what it is given. */
export class Recorder implements Sink {
  readonly chunks: Buffer[] = [];
  readonly isTTY: boolean;
  columns = 100;
  rows = 40;
  #listeners: ((error: Error) => void)[] = [];

  constructor(isTTY = false) {
    this.isTTY = isTTY;
  }

  write(chunk: string | Uint8Array): boolean {
    this.chunks.push(Buffer.from(chunk as string));
    return true;
  }

  on(event: 'error' | 'resize', listener: (error: Error) => void): void {
    if (event === 'error') this.#listeners.push(listener);
  }

  once(_event: 'drain', listener: () => void): void {
    setImmediate(listener);
  }

  off(): void {}

  fail(error: Error): void {
    for (const listener of this.#listeners) listener(error);
  }

  get bytes(): Buffer {
    return Buffer.concat(this.chunks);
  }

  get text(): string {
    return this.bytes.toString();
  }
}

/** A process that ends only in a test's imagination. */
export class EventHost extends EventEmitter {
  code: number | undefined;

  exit(code: number): void {
    this.code = code;
    this.emit('exit');
  }
}

export interface Outcome {
  code: number;
  out: string;
  err: string;
  bytes: Buffer;
}

export interface Setting extends Partial<Omit<Context, 'stdout' | 'stderr' | 'stdin'>> {
  pools?: FakePools;
  stdin?: string | Uint8Array;
  stdout?: Recorder;
  stderr?: Recorder;
  /** Standard input is a terminal, and nobody types. */
  typed?: boolean;
}

export function fakeContext(setting: Setting = {}): Context {
  const { pools = new FakePools(), stdin, stdout, stderr, typed, ...rest } = setting;
  let time = 0;
  const input = Readable.from(stdin === undefined ? [] : [Buffer.from(stdin as string)]);
  return {
    stdin: Object.assign(input, { isTTY: typed === true }),
    stdout: new Output(stdout ?? new Recorder()),
    stderr: new Output(stderr ?? new Recorder()),
    env: {},
    version: '1.2.3',
    pid: 77,
    // Time passes only when it is read, by the same amount each time.
    now: () => {
      time += 500;
      return time;
    },
    pause: async () => {},
    exitHost: new EventHost(),
    serveWeb: () => Promise.reject(new Error('no page in this test')),
    observe: () => Promise.reject(new Error('no pool to observe in this test')),
    signal: new AbortController().signal,
    library: async () => pools.library(),
    enlarging: () => Promise.reject(new Error('nothing is enlarged in this test')),
    serveRedis: () => Promise.reject(new Error('no gateway in this test')),
    listPools: async () => () => [],
    memoryNodes: () => Promise.reject(new Error('no memory nodes in this test')),
    startBenchClient: () => Promise.reject(new Error('no bench clients in this test')),
    ...rest,
  };
}

/** Runs a command line given as words; each word stays as it is. */
export async function stepwell(
  words: readonly string[],
  setting: Setting = {},
  program: Program = STEPWELL,
): Promise<Outcome> {
  const stdout = setting.stdout ?? new Recorder();
  const stderr = setting.stderr ?? new Recorder();
  const code = await run(words, fakeContext({ ...setting, stdout, stderr }), program);
  return { code, out: stdout.text, err: stderr.text, bytes: stdout.bytes };
}
