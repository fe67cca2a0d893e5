import { once } from 'node:events';
import type { Socket } from 'node:net';
import type { GatewayServer } from '../../server.ts';
import { command, connectTo } from './exchange.ts';

/** A connection that stays: requests are sent and replies awaited one after the other. */
export class Talk {
  readonly socket: Socket;
  #received = '';

  constructor(server: GatewayServer, socket = connectTo(server)) {
    this.socket = socket;
    socket.on('data', (chunk) => {
      this.#received += chunk.toString('latin1');
    });
    socket.on('error', () => {});
  }

  send(...lines: string[]): void {
    for (const line of lines) this.socket.write(command(line));
  }

  /** All that has come since the last time, once it holds this text. */
  async until(text: string | RegExp): Promise<string> {
    const isThere = () =>
      typeof text === 'string' ? this.#received.includes(text) : text.test(this.#received);
    const waiting = new AbortController();
    const { signal } = waiting;
    const closed = isThere() ? undefined : once(this.socket, 'close', { signal });
    while (!isThere()) {
      if (this.socket.closed) throw new Error(`closed after ${JSON.stringify(this.#received)}`);
      await Promise.race([once(this.socket, 'data', { signal }), closed]);
    }
    waiting.abort();
    const received = this.#received;
    this.#received = '';
    return received;
  }

  /** The reply to one request of a line, or of several lines up to the one that holds a text. */
  async ask(line: string, text: string | RegExp = '\r\n'): Promise<string> {
    this.send(line);
    return this.until(text);
  }

  /** What has come and nobody has looked at. */
  get unread(): string {
    return this.#received;
  }

  closed(): Promise<unknown> {
    return this.socket.closed ? Promise.resolve() : once(this.socket, 'close');
  }
}
