import { invariant } from '../errors.ts';
import { type Operation, waitFor } from '../verbs/index.ts';
import type { Arrival, Gate } from './gate.ts';
import { type GatewayOptions, type GatewayServer, serveRedis as serve } from './server.ts';

/**
 * Most operations of stores in flight; further commands wait. It bounds the memory of operations,
 * which stores keep for the next ones (see `RecordAccess.give`).
 */
const IN_FLIGHT_MAX = 512;

/** As `serveRedis` of server.ts, for stores over a network: runs many commands at once. */
export function serveRedis(options: GatewayOptions): Promise<GatewayServer> {
  return serve({ ...options, gate: new CommandGate() });
}

interface Waiting extends Arrival {
  admit(): void;
}

/**
 * Admits commands in their order of arrival, many at once. A command that runs alone waits until
 * those in flight have ended, and later ones wait for it.
 */
class CommandGate implements Gate {
  readonly #waiting: Waiting[] = [];
  #inFlight = 0;
  #isAlone = false;

  tryEnter({ runsAlone, operations }: Arrival): number | undefined {
    if (this.#waiting.length > 0 || !this.#hasRoom(runsAlone, operations)) return undefined;
    this.#admit(runsAlone, operations);
    return operations;
  }

  *enter({ runsAlone, operations }: Arrival): Operation<number> {
    yield* waitFor(
      new Promise<void>((admit) => this.#waiting.push({ runsAlone, operations, admit })),
    );
    return operations;
  }

  exit(operations: number): void {
    this.#inFlight -= operations;
    invariant(this.#inFlight >= 0, 'a command that did not enter the gate leaves it');
    this.#isAlone = false;
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      if (!this.#hasRoom(next.runsAlone, next.operations)) return;
      this.#waiting.shift();
      this.#admit(next.runsAlone, next.operations);
      next.admit();
    }
  }

  #hasRoom(runsAlone: boolean, operations: number): boolean {
    if (this.#inFlight === 0) return true;
    return !runsAlone && !this.#isAlone && this.#inFlight + operations <= IN_FLIGHT_MAX;
  }

  #admit(runsAlone: boolean, operations: number): void {
    invariant(operations > 0, 'a command in flight would not be counted');
    invariant(!runsAlone || this.#inFlight === 0, 'a command that runs alone has company');
    this.#inFlight += operations;
    this.#isAlone = runsAlone;
  }
}
