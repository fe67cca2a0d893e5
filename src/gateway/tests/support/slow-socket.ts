import type { Socket } from 'node:net';
import { Duplex } from 'node:stream';
import type { ClientMemory } from '../../connections/client-memory.ts';
import { Connection } from '../../connections/connection.ts';
import { COMMANDS } from '../../server.ts';
import { GATEWAY_LIMITS } from '../../settings.ts';
import { command } from './exchange.ts';
import { fakeStore } from './fake-store.ts';
import { serverView } from './server-view.ts';

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
  const store = fakeStore();
  const failures: unknown[] = [];
  const server = { ...serverView(store, limits), ...(memory && { memory }) };
  const connection = new Connection({
    id: 1,
    socket: socket as unknown as Socket,
    commands: COMMANDS,
    server,
    onError: (error) => failures.push(error),
  });
  return {
    socket,
    store,
    connection,
    server,
    failures,
    totals: server.totals,
    memory: server.memory,
  };
}

/** Runs due events. Two turns: requests run in the first, and their replies leave at its end. */
export async function settle(): Promise<void> {
  for (let turn = 0; turn < 2; turn++) await new Promise((resolve) => setImmediate(resolve));
}
