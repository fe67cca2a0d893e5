import type { Operation } from '../../../verbs/index.ts';
import {
  type Condition,
  IF_ABSENT,
  IF_PRESENT,
  IF_VERSION,
  INSERTED,
  type Outcome,
  REFUSED,
  REPLACED,
} from '../../contract.ts';
import type { RecordIo } from '../record-io.ts';
import type { Request } from '../request.ts';

/** The part of RecordIo that these operations use. */
type RecordBlocks = Pick<
  RecordIo,
  'take' | 'allocate' | 'discard' | 'complete' | 'isExpired' | 'isPast'
>;

/** The steps from which an index whose slots point at records builds its operations. */
export interface SlotProtocol<R extends Request> {
  readonly records: RecordBlocks;
  /** Writes the outgoing record, if it has a block, and looks for the key in slots to write to. */
  locate(request: R): Operation<boolean>;
  /** Each of these is false when the operation must begin again. */
  insert(request: R, attempt: number): Operation<boolean>;
  replace(request: R, attempt: number): Operation<boolean>;
  vacate(request: R, attempt: number): Operation<boolean>;
}

/** `Index.write` */
export function* writeSlot<R extends Request>(
  protocol: SlotProtocol<R>,
  request: R,
  condition: Condition,
  expected: number,
): Operation<Outcome> {
  const { records } = protocol;
  try {
    for (let attempt = 1; ; attempt++) {
      if (request.record.block === 0 && !records.take(request)) yield* records.allocate(request);
      const isThere = yield* protocol.locate(request);
      const present = isThere && !records.isExpired(request);
      if (refuses(condition, expected, present, request.found.version)) {
        if (!present) request.found.at = -1;
        return REFUSED;
      }
      const isDone = yield* isThere
        ? protocol.replace(request, attempt)
        : protocol.insert(request, attempt);
      if (!isDone) continue;
      request.displaced = isThere;
      return handedOver(request, present ? REPLACED : INSERTED);
    }
  } finally {
    records.discard(request);
  }
}

/**
 * `Index.remove`. The CAS of `vacate` expects the slot as `locate` read it, and no block is re-used
 * while this operation runs. So when the CAS succeeds the key still has the record whose version
 * was compared: a client that replaces it, or deletes and inserts the key again, changes the slot.
 */
export function* removeSlot<R extends Request>(
  protocol: SlotProtocol<R>,
  request: R,
  expected?: number,
): Operation<boolean> {
  for (let attempt = 1; ; attempt++) {
    if (!(yield* protocol.locate(request))) return false;
    if (isSpared(request, expected)) return false;
    const present = !protocol.records.isExpired(request);
    request.displaced = yield* protocol.vacate(request, attempt);
    if (request.displaced) return present;
  }
}

/** `Index.modify` */
export function* modifySlot<R extends Request>(
  protocol: SlotProtocol<R>,
  request: R,
  compute: (present: boolean) => void,
): Operation<Outcome> {
  const { records } = protocol;
  try {
    for (let attempt = 1; ; attempt++) {
      const isThere = yield* protocol.locate(request);
      const present = isThere && !records.isExpired(request);
      if (present) yield* records.complete(request);
      records.discard(request);
      compute(present);
      if (!records.take(request)) yield* records.allocate(request);
      const isDone = yield* isThere
        ? protocol.replace(request, attempt)
        : protocol.insert(request, attempt);
      if (!isDone) continue;
      request.displaced = isThere;
      return handedOver(request, present ? REPLACED : INSERTED);
    }
  } finally {
    records.discard(request);
  }
}

/**
 * Whether a removal spares the found record, because of its version or because it was just used.
 */
export function isSpared(request: Request, expected: number | undefined): boolean {
  return isOtherVersion(request, expected) || request.foundTicks > request.sparedIfUsedAfter;
}

/** Whether a removal spares the found record because it has another version. */
export function isOtherVersion({ found }: Request, expected: number | undefined): boolean {
  return expected !== undefined && found.version !== expected;
}

/** Whether the condition refuses a write of a key that is present with this version, or absent. */
export function refuses(
  condition: Condition,
  expected: number,
  present: boolean,
  version: number,
): boolean {
  if (condition === IF_ABSENT) return present;
  if (condition === IF_PRESENT) return !present;
  return condition === IF_VERSION && (!present || version !== expected);
}

/** The record belongs to the index from now on. */
export function handedOver(request: Request, outcome: Outcome): Outcome {
  request.record.forgetBlock();
  return outcome;
}
