import assert from 'node:assert/strict';
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { buffer } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { RUNTIME } from '../../../store/tests/support/runtime.ts';

const MAIN = fileURLToPath(new URL('../../main.ts', import.meta.url));

export interface Ended {
  code: number | null;
  out: string;
  err: string;
  bytes: Buffer;
}

export function start(words: readonly string[]): ChildProcessWithoutNullStreams {
  // Colours and stacks as nobody asked for them, whatever the tests run in.
  const env = { ...process.env, NO_COLOR: '1', STEPWELL_DEBUG: '' };
  return spawn(process.execPath, [...RUNTIME, MAIN, ...words], { env });
}

/** Runs the program to its end. */
export async function program(words: readonly string[], stdin?: Uint8Array): Promise<Ended> {
  const child = start(words);
  // A program that does not read its input may end before it has all of it.
  child.stdin.on('error', () => {});
  child.stdin.end(stdin);
  const [bytes, err, [code]] = await Promise.all([
    buffer(child.stdout),
    buffer(child.stderr),
    once(child, 'close') as Promise<[number | null]>,
  ]);
  return { code, bytes, out: bytes.toString(), err: err.toString() };
}

export async function succeeds(...words: string[]): Promise<Ended> {
  const ended = await program(words);
  assert.equal(ended.code, 0, `${words.join(' ')}: ${ended.err}`);
  return ended;
}

export interface Server {
  port: number;
  /** What it has printed so far. */
  readonly printed: string;
  /** Ends it with a signal; the exit code, or null when the signal itself ended it. */
  stop(signal: NodeJS.Signals): Promise<number | null>;
}

/** Starts `stepwell serve` on a free port; resolves when it has printed all that it says. */
export async function startServer(words: readonly string[]): Promise<Server> {
  const child = start(['serve', ...words, '--port', '0']);
  const closed = once(child, 'close') as Promise<[number | null]>;
  let printed = '';
  let complaints = '';
  child.stderr.on('data', (chunk) => {
    complaints += chunk;
  });
  const ready = new Promise<number>((resolve) => {
    child.stdout.on('data', (chunk) => {
      printed += chunk;
      const match = /Serving [^\n]*:(\d+)\n[\s\S]*Ctrl-C[^\n]*\n/.exec(printed);
      if (match !== null) resolve(Number(match[1]));
    });
  });
  const failed = closed.then(([code]): never => {
    throw new Error(`serve ended with ${code}: ${complaints}`);
  });
  const port = await Promise.race([ready, failed]);
  failed.catch(() => {});
  return {
    port,
    get printed() {
      return printed;
    },
    stop: async (signal) => {
      child.kill(signal);
      const [code] = await closed;
      return code;
    },
  };
}
