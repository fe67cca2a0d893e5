import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { invariant } from '../../src/errors.ts';
import { destroySync } from '../../src/store/open.ts';

const EXTENSION = extname(import.meta.url);
const RUNTIME = EXTENSION === '.ts' ? ['--import', import.meta.resolve('tsx')] : [];
const MAIN = fileURLToPath(new URL(`../../src/cli/main${EXTENSION}`, import.meta.url));
/** Of the system's clock for processor time. */
const TICKS_PER_SECOND = 100;

export interface GatewayProcess {
  readonly port: number;
  readonly pid: number;
  /** Ends the process and removes the pool. */
  stop(): Promise<void>;
}

/** `stepwell serve` of a pool on this machine, on a free port. */
export async function startGateway(url: string): Promise<GatewayProcess> {
  const words = [...RUNTIME, MAIN, 'serve', url, '--port', '0', '--size', '2g'];
  const child = spawn(process.execPath, words, { stdio: ['ignore', 'pipe', 'inherit'] });
  const exited = once(child, 'exit');
  let printed = '';
  for await (const chunk of child.stdout.iterator({ destroyOnReturn: false })) {
    printed += chunk;
    if (/Ctrl-C/.test(printed)) break;
  }
  child.stdout.resume();
  const [, port] = /127\.0\.0\.1:(\d+)/.exec(printed) ?? [];
  invariant(port !== undefined && child.pid !== undefined, `stepwell serve said ${printed}`);
  return {
    port: Number(port),
    pid: child.pid,
    async stop() {
      child.kill('SIGTERM');
      await exited;
      destroySync(url, { force: true });
    },
  };
}

/** What a process and its threads have used so far. */
export function processorSeconds(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
}
