import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const BINARY = '/usr/bin/redis-server';
const START_WITHIN_MS = 10_000;
const EXIT_WITHIN_MS = 5000;

interface RedisServer {
  port: number;
  pid: number;
  stop(): Promise<void>;
}

/** A Redis that keeps everything in memory, on a free port of the loopback interface. */
export async function startRedisServer(): Promise<RedisServer> {
  if (!existsSync(BINARY)) throw new Error(`${BINARY} is not installed`);
  const port = await freePort();
  const directory = mkdtempSync(join(tmpdir(), 'stepwell-redis-'));
  const place = ['--bind', '127.0.0.1', '--port', String(port), '--dir', directory];
  const child = spawn(BINARY, [...place, '--save', '', '--appendonly', 'no'], { stdio: 'ignore' });
  const stop = async () => {
    await endChild(child);
    rmSync(directory, { recursive: true, force: true });
  };
  try {
    await untilListening(child, port);
  } catch (error) {
    await stop();
    throw error;
  }
  return { port, pid: child.pid ?? 0, stop };
}

export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once('error', reject);
    probe.listen(0, '127.0.0.1', () => {
      const address = probe.address();
      const port = typeof address === 'object' && address !== null ? address.port : 0;
      probe.close(() => resolve(port));
    });
  });
}

async function untilListening(child: ChildProcess, port: number): Promise<void> {
  const failed = new Promise<never>((_, reject) => {
    child.once('error', reject);
    child.once('exit', (code) => reject(new Error(`redis-server ended with code ${code}`)));
  });
  // It may also reject after the race below, when nothing awaits it any more.
  failed.catch(() => {});
  for (let waited = 0; waited < START_WITHIN_MS; waited += 50) {
    if (await Promise.race([failed, accepts(port)])) return;
    await sleep(50);
  }
  throw new Error(`redis-server did not listen within ${START_WITHIN_MS} ms`);
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}

async function endChild(child: ChildProcess): Promise<void> {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const gone = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const timer = setTimeout(() => child.kill('SIGKILL'), EXIT_WITHIN_MS);
  child.kill('SIGTERM');
  await gone;
  clearTimeout(timer);
}
