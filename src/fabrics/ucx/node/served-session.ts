import type { Registration, UcxContext } from '../binding/context.ts';
import { UcxWorker } from '../binding/worker.ts';
import { type LentPiece, writeLentMemory } from '../lent-memory.ts';
import type { Transports } from '../transports.ts';

/** Where a client tries out what the transport can do, before it touches the pool. */
const TRIAL_BYTES = 4096;

/** What a session is lent: the memory of the node, as bytes that do not move. */
export interface Memory {
  regions: readonly Uint8Array[];
  isMapped: boolean;
}

/**
 * What one session reaches the memory by: a worker and registrations of its own. When they are
 * closed its client can reach nothing, whatever keys and addresses it has kept: a processor of the
 * node executes no message for that worker any more, and a card has neither the queue pair nor the
 * key. Other sessions do not notice.
 */
export class ServedSession {
  readonly worker: UcxWorker;
  readonly #registrations: Registration[] = [];
  readonly #pieces: LentPiece[] = [];
  // Kept reachable as long as it is registered.
  readonly #trial = new Uint8Array(new ArrayBuffer(TRIAL_BYTES));
  /** When there was something to do, in microseconds of the loop's clock. */
  workedAt = 0;
  /** Whether its descriptor tells of what comes. */
  isArmed = false;

  constructor(context: UcxContext) {
    this.worker = new UcxWorker(context);
  }

  /**
   * Registers the memory, or what has been added to it since; returns what the client has to know.
   * Raises SW_UNSUPPORTED.
   */
  lend(context: UcxContext, { regions, isMapped }: Memory, transports: Transports): Uint8Array {
    for (const bytes of [this.#trial, ...regions].slice(this.#pieces.length)) {
      const registration = context.register(bytes);
      this.#registrations.push(registration);
      const { address } = registration;
      this.#pieces.push({ address, bytes: bytes.length, key: registration.packKey() });
    }
    const [trial, ...lent] = this.#pieces;
    const { address: workerAddress } = this.worker;
    return writeLentMemory({ transports, isMapped, workerAddress, trial, regions: lent });
  }

  /** From here on no verb of this session is executed. */
  close(): void {
    this.worker.close();
    for (const registration of this.#registrations.splice(0)) registration.release();
  }
}
