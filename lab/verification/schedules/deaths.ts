import type { ClientRow } from '../../../src/pool/clients/membership.ts';
import type { Address } from '../../../src/verbs/index.ts';
import type { SimulatedClient } from './client.ts';

/** The operating system's view: which clients are dead, and when others can notice. */
export class Deaths {
  readonly #clients: readonly SimulatedClient[];
  readonly #now: () => number;
  readonly #peek: (address: Address) => bigint;
  /** By dead client: the client that has started to clean up after it. */
  readonly #attempts = new Map<SimulatedClient, Set<SimulatedClient>>();
  /** The state word of its row at that time. */
  readonly #states = new Map<SimulatedClient, bigint>();
  readonly #replaced = new Set<SimulatedClient>();
  /** From then on every client knows of every death. */
  #knownUpTo = -1;

  constructor(
    clients: readonly SimulatedClient[],
    now: () => number,
    peek: (address: Address) => bigint,
  ) {
    this.#clients = clients;
    this.#now = now;
    this.#peek = peek;
  }

  get count(): number {
    return this.#attempts.size;
  }

  has(client: SimulatedClient): boolean {
    return this.#attempts.has(client);
  }

  get lastAt(): number {
    return Math.max(...[...this.#attempts.keys()].map(({ diedAt }) => diedAt));
  }

  /** The client has died, or is suspended and will be declared dead. */
  add(client: SimulatedClient): void {
    client.diedAt = this.#now();
    this.#attempts.set(client, new Set());
    this.#states.set(client, this.#stateOf(client));
    // The client that was cleaning up after others has died, so another one must do it.
    for (const attempts of this.#attempts.values()) if (attempts.has(client)) attempts.clear();
  }

  /** Makes every death so far known to all clients. */
  announce(): void {
    this.#knownUpTo = this.#now();
  }

  /** Whether other clients can know that the client is dead. */
  #isKnown(client: SimulatedClient): boolean {
    if (!this.#attempts.has(client)) return false;
    return client.diedAt <= this.#knownUpTo || this.#now() >= this.#noticedAt(client);
  }

  #noticedAt({ diedAt, plan }: SimulatedClient): number {
    return diedAt + plan.noticedAfter;
  }

  /** Every client's thread id is its number plus one; see Simulation. */
  isGone({ thread }: ClientRow): boolean {
    const holder = this.#clients[thread.tid - 1];
    return holder !== undefined && this.#isKnown(holder);
  }

  /** Each client looks once after a death, and again when one that did has died. */
  mayRecover(client: SimulatedClient): boolean {
    if (this.#attempts.size === 0 || this.#attempts.has(client)) return false;
    for (const [dead, attempts] of this.#attempts) {
      if (!attempts.has(client) && this.#isKnown(dead)) return true;
    }
    return false;
  }

  recovers(client: SimulatedClient): void {
    for (const [dead, attempts] of this.#attempts) {
      if (this.#isKnown(dead)) attempts.add(client);
    }
  }

  /** The state word of the row that the client joined with; 0 where it has none. */
  #stateOf({ pool: { layout, membership } }: SimulatedClient): bigint {
    return membership.id === 0 ? 0n : this.#peek(layout.clientEntry(membership.id));
  }

  /** Suspended clients continue once others have declared them dead. */
  thaw(): void {
    for (const client of this.#attempts.keys()) {
      if (client.frozen && this.#stateOf(client) !== this.#states.get(client)) {
        client.frozen = false;
      }
    }
  }

  /** Dead clients whose programs a successor should continue now. */
  unreplaced(): SimulatedClient[] {
    const found: SimulatedClient[] = [];
    for (const client of this.#attempts.keys()) {
      if (this.#replaced.has(client) || !this.#isKnown(client)) continue;
      this.#replaced.add(client);
      if (client.plan.replaced) found.push(client);
    }
    return found;
  }

  /** The step of the next event that needs no client's action. */
  nextEvent(): number | undefined {
    const coming = [...this.#attempts.keys()].filter((client) => !this.#isKnown(client));
    return coming.length > 0 ? Math.min(...coming.map((c) => this.#noticedAt(c))) : undefined;
  }
}
