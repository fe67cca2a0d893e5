import type { Index } from '../../indexes/contract.ts';
import type { Request } from '../../indexes/substrates/request.ts';
import type { Meter } from '../../pool/clients/meter.ts';

/** More than a gateway on a network has in flight: making one takes longer than a read. */
const KEPT_MAX = 1024;
/** From this number on only small ones are kept. */
const LARGE_KEPT_MAX = 256;
/** Scratch memory of the request that is kept for the next operation, and of further ones. */
const FIRST_KEPT_BYTES = 1024 * 1024;
const OTHERS_KEPT_BYTES = 256 * 1024;
const SMALL_KEPT_BYTES = 8 * 1024;

/** Requests of operations that have ended, for the next ones. */
export class IdleRequests {
  readonly #index: Index;
  readonly #meter: Meter;
  readonly #idle: Request[] = [];

  constructor(index: Index, meter: Meter) {
    this.#index = index;
    this.#meter = meter;
  }

  take(): Request {
    return this.#idle.pop() ?? this.#index.newRequest();
  }

  give(request: Request): void {
    if (request.startedAt !== 0) this.#meter.end(request);
    const idle = this.#idle;
    if (idle.length < KEPT_MAX && request.mayBeKept(keptBytes(idle.length))) idle.push(request);
  }
}

/** What a request may have to be kept beside so many others. */
function keptBytes(others: number): number {
  if (others === 0) return FIRST_KEPT_BYTES;
  return others < LARGE_KEPT_MAX ? OTHERS_KEPT_BYTES : SMALL_KEPT_BYTES;
}
