import type { Operation } from '../../../verbs/index.ts';
import { NOT_AN_INTEGER, parseInteger, ReplyError } from '../../arguments.ts';
import type { CommandContext } from '../../command.ts';

const INTEGER_MAX = 2n ** 63n - 1n;
const INTEGER_MIN = -(2n ** 63n);
/** The latest time that a store accepts, thousands of years from now. */
const STORED_MAX = 2n ** 47n;

/** Whether a time is in seconds or milliseconds, and absolute or from now on. */
export interface TimeUnit {
  readonly seconds: boolean;
  readonly absolute: boolean;
}

/** Options of SET and GETEX that take a time. */
export const TIME_UNITS: Readonly<Record<string, TimeUnit>> = {
  EX: { seconds: true, absolute: false },
  PX: { seconds: false, absolute: false },
  EXAT: { seconds: true, absolute: true },
  PXAT: { seconds: false, absolute: true },
};

/** Converts an argument to milliseconds since 1970; the time may have passed. */
export function parseTime(argument: Buffer, unit: TimeUnit, command: string): number {
  const given = parseInteger(argument, NOT_AN_INTEGER);
  const invalid = new ReplyError(`ERR invalid expire time in '${command}' command`);
  const ms = unit.seconds ? given * 1000n : given;
  const time = unit.absolute ? ms : ms + BigInt(Date.now());
  if (ms > INTEGER_MAX || ms < INTEGER_MIN || time > STORED_MAX) throw invalid;
  return Number(time);
}

/** As `parseTime`, for commands that refuse zero and negative numbers. */
export function parseTimeAhead(argument: Buffer, unit: TimeUnit, command: string): number {
  if (parseInteger(argument, NOT_AN_INTEGER) > 0n) return parseTime(argument, unit, command);
  throw new ReplyError(`ERR invalid expire time in '${command}' command`);
}

/** Sets when a key expires, or deletes it if the time has passed; false if it is absent. */
export function* expireAt(key: Buffer, time: number, context: CommandContext): Operation<boolean> {
  const { store } = context;
  const isPast = time <= Date.now();
  const isDone = yield* isPast ? store.delete(key) : store.expire(key, { expiresAt: time });
  if (isDone) yield* context.changed('g', isPast ? 'del' : 'expire', key);
  return isDone;
}

/** Removes the expiry of a key; false if the key is absent or has none. */
export function* persistKey(key: Buffer, context: CommandContext): Operation<boolean> {
  const { store } = context;
  const found = yield* store.metadata(key);
  if (found === undefined || found.expiresAt === Number.POSITIVE_INFINITY) return false;
  const persisted = yield* store.expire(key, { ttlMs: Number.POSITIVE_INFINITY });
  if (persisted) yield* context.changed('g', 'persist', key);
  return persisted;
}
