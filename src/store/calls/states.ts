import { StepwellError } from '../../errors.ts';
import type { Request } from '../../indexes/substrates/request.ts';
import { clientWord, isGone } from '../../pool/clients/client-word.ts';
import { CODEC_STATE } from '../../records/codec.ts';
import { NEVER } from '../../records/times.ts';
import type { Operation } from '../../verbs/index.ts';
import type { Decide, NamedState, StateLook, StatesRead } from '../internal-calls.ts';
import { storedValue } from '../values.ts';
import { planScan } from './range-scan.ts';
import { type RecordAccess, Unchanged } from './record-access.ts';
import { buildersOf, foundKey } from './result-builders.ts';

/** A prefix that callers' keys are unlikely to have. */
const STATE_PREFIX = '\u0000stepwell:';

/** A new attempt follows only if a decision has asked about another client. */
const QUESTIONS_MAX = 1000;

/**
 * Changes a state that helpers keep in the store, atomically: `decide` returns the new state. It
 * may run several times, and must do nothing else. Such records are hidden from walks.
 */
export function* changeState<T>(
  access: RecordAccess,
  name: string,
  decide: Decide<T>,
): Operation<T> {
  const { membership } = access.attachment.pool;
  const key = STATE_PREFIX + name;
  const gone = new Map<number, boolean>();
  for (let attempt = 0; attempt < QUESTIONS_MAX; attempt++) {
    const asked = new Set<number>();
    const outcome = yield* tryToChange(access, key, decide, gone, asked);
    if (outcome !== undefined) return outcome.result;
    for (const client of asked) gone.set(client, yield* isGone(membership, client));
  }
  throw new StepwellError('SW_CONTENTION', `other clients change ${name} again and again`);
}

/** Undefined if it must be tried again after finding out which of the `asked` clients are gone. */
function* tryToChange<T>(
  access: RecordAccess,
  key: string,
  decide: Decide<T>,
  gone: ReadonlyMap<number, boolean>,
  asked: Set<number>,
): Operation<{ result: T } | undefined> {
  const { clock, membership } = access.attachment.pool;
  const self = clientWord(membership);
  const isClientGone = (client: number) => {
    if (client === self) return false;
    if (!gone.has(client)) asked.add(client);
    return gone.get(client) ?? false;
  };
  const look: StateLook = { now: clock.now(), self, isGone: isClientGone };
  const request = access.requestTo('write', key);
  const outcome: { result?: T } = {};
  let version = 0;
  let isRemoved = false;
  // The expiry makes `modify` note that the store may have records that expire.
  yield* access.modify(request, NEVER, (present) => {
    asked.clear();
    version = request.found.version;
    const { next, result, keepUntil } = decide(
      present ? parseState(request, key) : undefined,
      look,
    );
    isRemoved = asked.size === 0 && present && next === null;
    if (asked.size > 0) throw new Unchanged();
    outcome.result = result;
    if (next === undefined || next === null) throw new Unchanged();
    const expiry =
      keepUntil === undefined ? undefined : { deadline: Math.ceil(keepUntil), sliding: false };
    access.put(request, access.keyIn(key), JSON.stringify(next), expiry, CODEC_STATE);
  });
  if (asked.size > 0) return undefined;
  if (isRemoved && !(yield* access.remove(key, version))) return undefined;
  return { result: outcome.result as T };
}

/**
 * The first `limit` states whose names are from `from` on and below `to`, in the order of their
 * bytes. Needs an ordered index (SW_UNSUPPORTED). As of a scan, two states may be of different
 * moments, and a state may have changed by now.
 */
export function* readStates(
  access: RecordAccess,
  from: string,
  to: string,
  limit: number,
): Operation<StatesRead> {
  const { attachment, index, settings } = access;
  attachment.refuseClosed();
  const range = { gte: STATE_PREFIX + from, lt: STATE_PREFIX + to, limit };
  const skip = (settings.namespace?.bytes.length ?? 0) + STATE_PREFIX.length;
  const made = buildersOf((request, keyBytes): NamedState => {
    const name = Buffer.from(foundKey(request, keyBytes, skip)).toString();
    return { name, state: parseState(request, name) };
  });
  const scan = planScan(index, range, 'states', made, settings).begin(access);
  // Read after the scan, the time would make records due that it has not met.
  const now = attachment.pool.clock.now();
  const states = yield* scan.takeMany(limit);
  return { now, isBounded: access.bounded !== undefined, states };
}

/** The state in the found record. Raises SW_UNDECODABLE for a record of a caller's. */
function parseState(request: Request, key: string): unknown {
  if (request.found.codec === CODEC_STATE) {
    return JSON.parse(storedValue(request, 'utf8') as string);
  }
  const why = `the key ${JSON.stringify(key)} has a value that is none of a helper's`;
  throw new StepwellError('SW_UNDECODABLE', `${why}: remove it, or use another name`);
}
