import type { Condition, Outcome } from '../contract.ts';
import type { Request } from './request.ts';

/** A write of one caller, whose record stands sealed in its request. */
export interface PlannedWrite<R extends Request> {
  readonly request: R;
  readonly condition: Condition;
  readonly expected: number;
  /** Set when the write has taken effect, or been refused. */
  outcome?: Outcome;
}

/** A request that can take over what another one of the same key has found. */
export interface SharingRequest<R> extends Request {
  takeFound(from: R): void;
}
