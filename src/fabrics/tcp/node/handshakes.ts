import type { Socket } from 'node:net';

/** Ticks that a handshake may take. A node that stood still has not counted them. */
const TICKS_PER_HANDSHAKE = 10;

interface Handshake {
  socket: Socket;
  address: string;
  ticks: number;
}

/**
 * The connections that a node has not let in, TLS or not, from the first packet on: those that are
 * shaking hands, and those that were refused and linger. They are bounded in number and time, apart
 * from the clients that were let in, so strangers hold up no client for long.
 *
 * A new connection always finds room. When there is none, it replaces the oldest one from the
 * address that has most: strangers there take the room from each other, and a handshake is short.
 */
export class Handshakes {
  readonly #max: number;
  /** By both ends of the connection, oldest first. */
  readonly #waiting = new Map<string, Handshake>();
  readonly #counts = new Map<string, number>();
  readonly #clock: NodeJS.Timeout;

  constructor(max: number, deadlineMs: number) {
    this.#max = max;
    this.#clock = setInterval(() => this.#tick(), deadlineMs / TICKS_PER_HANDSHAKE).unref();
  }

  begin(socket: Socket): void {
    const key = endsOf(socket);
    const address = socket.remoteAddress;
    // Gone again already.
    if (address === undefined) return;
    if (this.#waiting.size >= this.#max) this.#makeRoom();
    this.#waiting.set(key, { socket, address, ticks: 0 });
    this.#counts.set(address, (this.#counts.get(address) ?? 0) + 1);
    socket.once('close', () => this.#end(key, socket));
  }

  /** The connection's client was let in: what it does now is bounded by its lease. */
  letIn(socket: Socket): void {
    this.#end(endsOf(socket));
  }

  close(): void {
    clearInterval(this.#clock);
  }

  #end(key: string, socket?: Socket): void {
    const handshake = this.#waiting.get(key);
    // The same ends again: another connection that came after this one.
    if (handshake === undefined || (socket && handshake.socket !== socket)) return;
    this.#waiting.delete(key);
    const { address } = handshake;
    const count = (this.#counts.get(address) ?? 0) - 1;
    if (count > 0) this.#counts.set(address, count);
    else this.#counts.delete(address);
  }

  #makeRoom(): void {
    let most = '';
    for (const [address, count] of this.#counts) {
      if (count > (this.#counts.get(most) ?? 0)) most = address;
    }
    for (const [key, { socket, address }] of this.#waiting) {
      if (address !== most) continue;
      this.#end(key);
      socket.destroy();
      return;
    }
  }

  #tick(): void {
    for (const [key, handshake] of this.#waiting) {
      if (++handshake.ticks <= TICKS_PER_HANDSHAKE) continue;
      this.#end(key);
      handshake.socket.destroy();
    }
  }
}

/** The same of a socket and of the TLS socket above it. */
function endsOf({ remoteAddress, remotePort, localAddress, localPort }: Socket): string {
  return `${remoteAddress} ${remotePort} ${localAddress} ${localPort}`;
}
