import type { Socket } from 'node:net';

/** Ticks that a handshake may take. While the node is stopped, none are counted. */
const TICKS_PER_HANDSHAKE = 10;

interface Handshake {
  socket: Socket;
  address: string;
  ticks: number;
}

/**
 * Connections that a node has not admitted, with or without TLS and from the first packet on: those
 * in the handshake, and refused ones that linger. They are bounded in number and time, separately
 * from admitted clients, so strangers do not hold up clients for long.
 *
 * A new connection always finds room. If there is none, it replaces the oldest connection from the
 * address with the most: strangers displace each other, and a handshake is short.
 */
export class Handshakes {
  readonly #max: number;
  /** By the addresses of both ends, oldest first. */
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
    // The connection has already ended.
    if (address === undefined) return;
    if (this.#waiting.size >= this.#max) this.#makeRoom();
    this.#waiting.set(key, { socket, address, ticks: 0 });
    this.#counts.set(address, (this.#counts.get(address) ?? 0) + 1);
    socket.once('close', () => this.#end(key, socket));
  }

  /** Forgets a connection whose client was admitted: from now on its lease bounds it. */
  letIn(socket: Socket): void {
    this.#end(endsOf(socket));
  }

  close(): void {
    clearInterval(this.#clock);
  }

  #end(key: string, socket?: Socket): void {
    const handshake = this.#waiting.get(key);
    // A later connection may have the same ends.
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

/** The addresses of both ends, which a socket and its TLS socket share. */
function endsOf({ remoteAddress, remotePort, localAddress, localPort }: Socket): string {
  return `${remoteAddress} ${remotePort} ${localAddress} ${localPort}`;
}
