import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { invariant } from '../../src/errors.ts';
import { destroySync } from '../../src/store/open.ts';
import { freePort } from '../bench/redis-server.ts';

const EXTENSION = extname(import.meta.url);
const RUNTIME = EXTENSION === '.ts' ? ['--import', import.meta.resolve('tsx')] : [];
const MAIN = fileURLToPath(new URL(`../../src/cli/main${EXTENSION}`, import.meta.url));
/** Linux counts processor time in ticks of 10 ms. */
const TICKS_PER_SECOND = 100;
const CREATE_MS_MAX = 60_000;

export interface CommandProcess {
  /** The port that it printed; NaN if it printed none. */
  readonly port: number;
  readonly pid: number;
  /** Ends the process with SIGTERM, so that it can shut down. */
  stop(): Promise<void>;
  /** Ends it with SIGKILL. */
  kill(): Promise<void>;
}

/** Starts a `stepwell` command, and waits until its output matches `ready`. */
export async function startCommand(
  command: readonly string[],
  ready: RegExp,
): Promise<CommandProcess> {
  const words = [...RUNTIME, MAIN, ...command];
  const child = spawn(process.execPath, words, { stdio: ['ignore', 'pipe', 'inherit'] });
  const exited = once(child, 'exit');
  let printed = '';
  for await (const chunk of child.stdout.iterator({ destroyOnReturn: false })) {
    printed += chunk;
    if (ready.test(printed)) break;
  }
  child.stdout.resume();
  const [, port] = /127\.0\.0\.1:(\d+)/.exec(printed) ?? [];
  invariant(child.pid !== undefined, `stepwell ${command[0]} said ${printed}`);
  const end = async (signal: NodeJS.Signals) => {
    child.kill(signal);
    await exited;
  };
  const [stop, kill] = (['SIGTERM', 'SIGKILL'] as const).map((signal) => () => end(signal));
  return { port: Number(port), pid: child.pid, stop, kill };
}

/**
 * Runs a command to its end. `code` is undefined if it was killed, after `limitMs` for instance.
 */
export async function runCommand(
  command: readonly string[],
  limitMs: number,
): Promise<{ code: number | undefined; output: string }> {
  const child = spawn(process.execPath, [...RUNTIME, MAIN, ...command]);
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => {
      output += chunk;
    });
  }
  const timer = setTimeout(() => child.kill('SIGKILL'), limitMs);
  const [code] = (await once(child, 'close')) as [number | null];
  clearTimeout(timer);
  return { code: code ?? undefined, output };
}

/**
 * `stepwell serve` of a pool on this machine, on a free port; `stop` also removes the pool. The
 * store is on `index`, or on the one that `serve` chooses.
 */
export async function startGateway(url: string, index = ''): Promise<CommandProcess> {
  if (index !== '') await createStore(url, index, '--size', '2g');
  const gateway = await startCommand(['serve', url, '--port', '0', '--size', '2g'], /Ctrl-C/);
  invariant(gateway.port > 0, 'stepwell serve said no port');
  return {
    ...gateway,
    async stop() {
      await gateway.stop();
      destroySync(url, { force: true });
    },
  };
}

/** `stepwell serve` of a pool on a memory node of this machine; `stop` ends both. */
export async function startGatewayOfNode(
  index = '',
): Promise<CommandProcess & { nodePid: number }> {
  const at = `127.0.0.1:${await freePort()}`;
  const node = await startCommand(['memory-node', '--listen', at, '--size', '2g'], /Ctrl-C/);
  if (index !== '') await createStore(`tcp://${at}`, index);
  const gateway = await startCommand(['serve', `tcp://${at}`, '--port', '0'], /Ctrl-C/);
  invariant(gateway.port > 0, 'stepwell serve said no port');
  return {
    ...gateway,
    nodePid: node.pid,
    async stop() {
      await gateway.stop();
      await node.stop();
    },
  };
}

async function createStore(url: string, index: string, ...options: string[]): Promise<void> {
  const command = ['create', url, '--store', 'default', '--index', index, ...options];
  const { code, output } = await runCommand(command, CREATE_MS_MAX);
  invariant(code === 0, `stepwell ${command.join(' ')} ended with ${code}: ${output}`);
}

/** Processor seconds that a process and its threads have used. */
export function processorSeconds(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
}
