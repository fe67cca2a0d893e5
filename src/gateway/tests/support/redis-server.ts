import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface RealRedis {
  /** Sends the bytes, ends the input, and returns all replies. */
  exchange(bytes: Uint8Array): Promise<string>;
  stop(): Promise<void>;
}

/** A Redis server of its own, on a socket file instead of a port, that stores nothing on disk. */
export async function startRedis(): Promise<RealRedis> {
  const folder = mkdtempSync(join(tmpdir(), 'stepwell-redis-'));
  const path = join(folder, 'socket');
  const options = ['--port', '0', '--unixsocket', path, '--save', '', '--dir', folder];
  const child = spawn('redis-server', options, { stdio: ['ignore', 'pipe', 'inherit'] });
  const exited = once(child, 'exit');
  let log = '';
  for await (const chunk of child.stdout.iterator({ destroyOnReturn: false })) {
    log += chunk;
    if (log.includes('ready to accept connections') || log.includes('server is now ready')) break;
  }
  child.stdout.resume();
  return {
    async exchange(bytes) {
      const socket = connect(path);
      const received: Buffer[] = [];
      socket.on('data', (chunk) => received.push(chunk));
      socket.end(bytes);
      await once(socket, 'close');
      return Buffer.concat(received).toString('latin1');
    },
    async stop() {
      child.kill();
      await exited;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
