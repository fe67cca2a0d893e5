import type { Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { ClientMemory } from '../../client-memory.ts';
import { COMMANDS } from '../../commands/index.ts';
import { Connection } from '../../connection.ts';
import { GATEWAY_LIMITS } from '../../limits.ts';
import { command } from './exchange.ts';
import { FakeStore } from './fake-store.ts';

/** A socket whose client reads only when `release` is called, and that counts the writes. */
export class SlowSocket extends Duplex {
  readonly sent: Buffer[] = [];
  writes = 0;
  #release: (() => void) | undefined;

  get sentText(): string {
    return Buffer.concat(this.sent).toString('latin1');
  }

  receive(...requests: string[]): void {
    this.push(Buffer.concat(requests.map(command)));
  }

  /** The client reads everything that is on its way. */
  release(): void {
    const release = this.#release;
    this.#release = undefined;
    release?.();
  }

  override _read(): void {}

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this._writev([{ chunk }], done);
  }

  override _writev(chunks: { chunk: Buffer }[], done: () => void): void {
    this.writes++;
    for (const { chunk } of chunks) this.sent.push(Buffer.from(chunk));
    this.#release = done;
  }
}

export function startConnection(limits = GATEWAY_LIMITS, memory?: ClientMemory) {
  const socket = new SlowSocket({ emitClose: true });
  const store = new FakeStore();
  const failures: unknown[] = [];
  const totals = {
    connections: 1,
    rejectedConnections: 0,
    evictedConnections: 0,
    commands: 0,
    errors: 0,
    bytesIn: 0,
    bytesOut: 0,
  };
  const server = {
    host: '',
    port: 0,
    maxConnections: 1,
    connections: 1,
    startedAt: 0,
    totals,
    limits,
    memory: memory ?? new ClientMemory(limits.clientBytesMax),
  };
  const connection = new Connection({
    id: 1,
    socket: socket as unknown as Socket,
    store,
    commands: COMMANDS,
    server,
    onError: (error) => failures.push(error),
  });
  return { socket, store, connection, totals, failures, memory: server.memory };
}

/** Lets events that are due take place. */
export function settle(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
