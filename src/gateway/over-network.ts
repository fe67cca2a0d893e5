import { invariant } from '../errors.ts';
import { type Operation, waitFor } from '../verbs/index.ts';
import type { Arrival, Gate } from './gate.ts';
import { type GatewayOptions, type GatewayServer, serveRedis as serve } from './server.ts';

/**
 * Operations of stores in flight together; further commands wait. It bounds the memory of
 * operations, and a store keeps as much of it for the next ones (see `RecordAccess.give`).
 */
const IN_FLIGHT_MAX = 512;

/** As `serveRedis` of server.ts, over stores whose operations take time: many commands at once. */
export function serveRedis(options: GatewayOptions): Promise<GatewayServer> {
  return serve({ ...options, gate: new CommandGate() });
}

/** A command that waits. */
interface Waiting extends Arrival {
  admit(): void;
}

/**
 * Lets commands in as they come, many at once. One that runs alone waits until those in flight have
 * ended, and later ones wait for it.
 */
class CommandGate implements Gate {
  readonly #waiting: Waiting[] = [];
  #inFlight = 0;
  #isAlone = false;

  *enter({ runsAlone, operations }: Arrival): Operation<number> {
    if (this.#waiting.length === 0 && this.#hasRoom(runsAlone, operations)) {
      this.#admit(runsAlone, operations);
    } else {
      yield* waitFor(
        new Promise<void>((admit) => this.#waiting.push({ runsAlone, operations, admit })),
      );
    }
    return operations;
  }

  exit(operations: number): void {
    this.#inFlight -= operations;
    invariant(this.#inFlight >= 0, 'a command leaves the gate that did not enter it');
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
    invariant(!runsAlone || this.#inFlight === 0, 'commands of others run beside one alone');
    this.#inFlight += operations;
    this.#isAlone = runsAlone;
  }
}
