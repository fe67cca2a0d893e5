import { type Operation, waitFor } from '../verbs/index.ts';
import type { Arrival, Gate } from './gate.ts';
import { type GatewayOptions, type GatewayServer, serveRedis as serve } from './server.ts';

/** Commands in flight together; further ones wait. */
const IN_FLIGHT_MAX = 256;

/** As `serveRedis` of server.ts, over stores whose operations take time: many commands at once. */
export function serveRedis(options: GatewayOptions): Promise<GatewayServer> {
  return serve({ ...options, gate: new CommandGate() });
}

/** A command that waits. */
interface Waiting {
  readonly runsAlone: boolean;
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

  *enter({ runsAlone }: Arrival): Operation<void> {
    if (this.#waiting.length === 0 && this.#hasRoom(runsAlone)) {
      this.#admit(runsAlone);
      return;
    }
    yield* waitFor(
      new Promise<void>((resolve) => this.#waiting.push({ runsAlone, admit: resolve })),
    );
  }

  exit(): void {
    this.#inFlight--;
    this.#isAlone = false;
    while (this.#waiting.length > 0 && this.#hasRoom(this.#waiting[0].runsAlone)) {
      const { runsAlone, admit } = this.#waiting.shift() as Waiting;
      this.#admit(runsAlone);
      admit();
    }
  }

  #hasRoom(runsAlone: boolean): boolean {
    return !this.#isAlone && this.#inFlight < (runsAlone ? 1 : IN_FLIGHT_MAX);
  }

  #admit(runsAlone: boolean): void {
    this.#inFlight++;
    this.#isAlone = runsAlone;
  }
}
