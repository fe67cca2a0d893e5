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
/** The system counts processor time in ticks of 10 ms. */
const TICKS_PER_SECOND = 100;

export interface CommandProcess {
  /** That it said it listens on; NaN when it said none. */
  readonly port: number;
  readonly pid: number;
  /** Ends the process, which may finish what it does. */
  stop(): Promise<void>;
  /** By SIGKILL. */
  kill(): Promise<void>;
}

/** A command of stepwell in a process of its own, once it has said that it is `ready`. */
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

/** Runs a command. Its exit code is undefined when it had to be killed after `limitMs`. */
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

/** `stepwell serve` of a pool on this machine, on a free port; `stop` removes the pool, too. */
export async function startGateway(url: string): Promise<CommandProcess> {
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
export async function startGatewayOfNode(): Promise<CommandProcess> {
  const at = `127.0.0.1:${await freePort()}`;
  const node = await startCommand(['memory-node', '--listen', at, '--size', '2g'], /Ctrl-C/);
  const gateway = await startCommand(['serve', `tcp://${at}`, '--port', '0'], /Ctrl-C/);
  invariant(gateway.port > 0, 'stepwell serve said no port');
  return {
    ...gateway,
    async stop() {
      await gateway.stop();
      await node.stop();
    },
  };
}

/** What a process and its threads have used so far. */
export function processorSeconds(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
}
