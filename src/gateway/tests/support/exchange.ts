import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import type { TestContext } from 'node:test';
import { type GatewayOptions, type GatewayServer, serveRedis } from '../../server.ts';
import { type FakeStore, fakeStore, served } from './fake-store.ts';

export interface Rig {
  store: FakeStore;
  server: GatewayServer;
  /** What the onError hook was told. */
  failures: { error: unknown; command: string }[];
}

/** A server over a fake store; the caller closes it. */
export async function startServer(options: Partial<GatewayOptions> = {}): Promise<Rig> {
  const store = fakeStore();
  const failures: Rig['failures'] = [];
  const onError = (error: unknown, command: string) => failures.push({ error, command });
  const server = await serveRedis({ ...served(store), port: 0, onError, ...options });
  return { store, server, failures };
}

/** A server that is closed when the test ends. */
export async function serverFor(
  test: TestContext,
  options?: Partial<GatewayOptions>,
): Promise<Rig> {
  const rig = await startServer(options);
  test.after(() => rig.server.close());
  return rig;
}

/** A request as clients send it. */
export function array(...words: (string | Uint8Array)[]): Buffer {
  const parts: Uint8Array[] = [Buffer.from(`*${words.length}\r\n`)];
  for (const word of words) {
    const bytes = Buffer.from(word as string);
    parts.push(Buffer.from(`$${bytes.length}\r\n`), bytes, Buffer.from('\r\n'));
  }
  return Buffer.concat(parts);
}

/** `SET key value` as an array; for words without blanks. */
export function command(line: string): Buffer {
  return array(...line.split(' '));
}

export function connectTo(server: GatewayServer): Socket {
  return connect({ ...server.address, noDelay: true });
}

/** Sends the bytes, ends the input, and returns all that comes until the server hangs up. */
export async function exchange(
  server: GatewayServer,
  bytes: Uint8Array | string,
  { piece = Number.POSITIVE_INFINITY } = {},
): Promise<string> {
  const socket = connectTo(server);
  const received: Buffer[] = [];
  socket.on('data', (chunk) => received.push(chunk));
  await once(socket, 'connect');
  const all = Buffer.from(bytes as string);
  for (let at = 0; at < all.length && socket.writable; at += piece) {
    socket.write(all.subarray(at, at + piece));
    // Lets the server, which lives in this process, read the piece before the next one leaves.
    if (piece < all.length) await new Promise((resolve) => setImmediate(resolve));
  }
  socket.end();
  await once(socket, 'close');
  return Buffer.concat(received).toString('latin1');
}
