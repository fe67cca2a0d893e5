/** A resource that serves requests one at a time, in the order of arrival. */
export class Server {
  freeAt = 0;
  /** How long it has been busy since the last measurement began. */
  busyNs = 0;

  /** When a request that arrives now and takes `serviceNs` is done. */
  serve(now: number, serviceNs: number): number {
    const start = now > this.freeAt ? now : this.freeAt;
    this.freeAt = start + serviceNs;
    this.busyNs += serviceNs;
    return this.freeAt;
  }

  /**
   * When the receiver of a link has a message whose last byte arrives now. Switches forward bytes
   * as they arrive, so an idle link adds no time.
   */
  receive(now: number, serviceNs: number): number {
    const queued = this.freeAt + serviceNs;
    this.freeAt = now > queued ? now : queued;
    this.busyNs += serviceNs;
    return this.freeAt;
  }

  /** Like `serve`, but returns when the service begins. */
  begin(now: number, serviceNs: number): number {
    return this.serve(now, serviceNs) - serviceNs;
  }
}

/** Equal servers with one queue. */
export class ServerGroup {
  readonly #servers: readonly Server[];

  constructor(count: number) {
    this.#servers = Array.from({ length: count }, () => new Server());
  }

  serve(now: number, serviceNs: number): number {
    let first = this.#servers[0];
    for (const server of this.#servers) if (server.freeAt < first.freeAt) first = server;
    return first.serve(now, serviceNs);
  }

  get count(): number {
    return this.#servers.length;
  }

  get busyNs(): number {
    return this.#servers.reduce((sum, { busyNs }) => sum + busyNs, 0);
  }

  clear(): void {
    for (const server of this.#servers) server.busyNs = 0;
  }
}
