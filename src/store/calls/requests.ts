import type { Index } from '../../indexes/contract.ts';
import type { Request } from '../../indexes/substrates/request.ts';
import type { Meter } from '../../pool/clients/meter.ts';

const KEPT_MAX = 256;
/** Scratch memory of the request that is kept for the next operation, and of each further one. */
const FIRST_KEPT_BYTES = 1024 * 1024;
const OTHERS_KEPT_BYTES = 256 * 1024;

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
    const bytes = idle.length === 0 ? FIRST_KEPT_BYTES : OTHERS_KEPT_BYTES;
    if (idle.length < KEPT_MAX && request.mayBeKept(bytes)) idle.push(request);
  }
}
