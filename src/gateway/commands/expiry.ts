import type { Operation } from '../../verbs/index.ts';
import { keyword, ReplyError } from '../arguments.ts';
import { type Command, type CommandContext, signature } from '../command.ts';
import type { Request } from '../protocol/request-reader.ts';
import { expireAt, parseTime, persistKey, type TimeUnit } from './support/expiry.ts';
import { retry } from './support/modify.ts';

export const expire = expiring('expire', 'after so many seconds', true, false);
export const pexpire = expiring('pexpire', 'after so many milliseconds', false, false);
export const expireat = expiring('expireat', 'at a time of day in seconds', true, true);
export const pexpireat = expiring('pexpireat', 'at a time of day in milliseconds', false, true);

function expiring(name: string, when: string, seconds: boolean, absolute: boolean): Command {
  const unit: TimeUnit = { seconds, absolute };
  return {
    ...signature(`${name} key time [NX|XX|GT|LT ...]`, 'generic', 'write', 'fast'),
    summary: `Makes a key expire ${when}; NX, XX, GT and LT compare with its expiry so far.`,
    *run(request, context) {
      const [, key, argument] = request;
      const isAllowed = parseCondition(request);
      const time = parseTime(argument, unit, name);
      const isDone = yield* isAllowed === undefined
        ? expireAt(key, time, context)
        : expireIf(key, time, isAllowed, context);
      context.reply.integer(isDone ? 1 : 0);
    },
  };
}

/** Whether the expiry of a key may change from one time to another. */
type Condition = (now: number, wanted: number) => boolean;

const NEVER = Number.POSITIVE_INFINITY;
const CONDITIONS: Readonly<Record<string, Condition>> = {
  NX: (now) => now === NEVER,
  XX: (now) => now !== NEVER,
  GT: (now, wanted) => wanted > now,
  LT: (now, wanted) => wanted < now,
};

/** Undefined if any time may be set. */
function parseCondition(request: Request): Condition | undefined {
  const given = new Set<string>();
  for (const argument of request.slice(3)) {
    const option = keyword(argument);
    if (CONDITIONS[option] === undefined) {
      throw new ReplyError(`ERR Unsupported option ${argument.toString('utf8', 0, 128)}`);
    }
    given.add(option);
  }
  if (given.has('NX') && given.size > 1) {
    throw new ReplyError('ERR NX and XX, GT or LT options at the same time are not compatible');
  }
  if (given.has('GT') && given.has('LT')) {
    throw new ReplyError('ERR GT and LT options at the same time are not compatible');
  }
  const conditions = [...given].map((option) => CONDITIONS[option]);
  if (conditions.length === 0) return undefined;
  return (now, wanted) => conditions.every((isMet) => isMet(now, wanted));
}

/** Changes a record only if it is still the one whose expiry was compared. */
function* expireIf(
  key: Buffer,
  time: number,
  isAllowed: Condition,
  context: CommandContext,
): Operation<boolean> {
  const { store } = context;
  const isPast = time <= Date.now();
  let isDone = false;
  yield* retry(function* () {
    const found = yield* store.metadata(key);
    isDone = found !== undefined && isAllowed(found.expiresAt, time);
    if (found === undefined || !isDone) return true;
    if (isPast) return yield* store.compareAndDelete(key, found.version);
    const entry = yield* store.getEntry(key);
    if (entry?.version !== found.version) return false;
    const options = { expiresAt: time };
    const { version, value } = entry;
    return (yield* store.compareAndSet(key, version, value, options)) !== undefined;
  });
  if (isDone) yield* context.changed('g', isPast ? 'del' : 'expire', key);
  return isDone;
}

export const persist: Command = {
  ...signature('persist key', 'generic', 'write', 'fast'),
  summary: 'Removes the expiry of a key; returns 1 if it had one.',
  *run([, key], context) {
    context.reply.integer((yield* persistKey(key, context)) ? 1 : 0);
  },
};

const ABSENT = -2;
const FOR_EVER = -1;

export const ttl = telling('ttl', 'Returns the seconds that a key has left', (at) =>
  seconds(left(at)),
);
export const pttl = telling('pttl', 'Returns the milliseconds that a key has left', left);
export const expiretime = telling('expiretime', 'Returns when a key expires, in seconds', seconds);
export const pexpiretime = telling(
  'pexpiretime',
  'Returns when a key expires, in milliseconds',
  (expiresAt) => expiresAt,
);

function telling(name: string, does: string, tell: (expiresAt: number) => number): Command {
  return {
    ...signature(`${name} key`, 'generic', 'readonly', 'fast'),
    summary: `${does}; -1 for never, -2 if it does not exist.`,
    *run([, key], { store, reply }) {
      const found = yield* store.metadata(key);
      if (found === undefined) reply.integer(ABSENT);
      else reply.integer(Number.isFinite(found.expiresAt) ? tell(found.expiresAt) : FOR_EVER);
    },
  };
}

function left(expiresAt: number): number {
  return Math.max(0, expiresAt - Date.now());
}

function seconds(ms: number): number {
  return Math.floor((ms + 500) / 1000);
}
