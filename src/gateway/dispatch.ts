import { StepwellError } from '../errors.ts';
import type { Operation } from '../verbs/index.ts';
import { ReplyError, wrongNumberOfArguments } from './arguments.ts';
import {
  type Command,
  type CommandContext,
  hasArity,
  type LongReply,
  subcommandOf,
} from './command.ts';
import type { Request } from './protocol/request-reader.ts';

const QUOTED_NAME_MAX = 128;
/** Commands with passwords: MONITOR and SLOWLOG do not show them. */
const SECRET = words('auth hello');

function words(text: string): ReadonlySet<string> {
  return new Set(text.split(' '));
}

/**
 * Runs one request and writes its one reply, an error if anything fails. Returns the rest of a long
 * reply.
 */
export function dispatch(
  request: Request,
  context: CommandContext,
): Operation<LongReply | undefined> {
  const { state, reply } = context;
  const before = reply.length;
  let command: Command;
  try {
    command = resolve(request, context);
    state.lastCommand = command.name;
    if (!state.isPlain && !admit(command, request, context)) return nothing();
  } catch (error) {
    if (state.transaction !== undefined) state.transaction.isSpoilt = true;
    fail(error, '', before, context);
    return nothing();
  }
  return execute(command, request, context);
}

/** Runs a command whose number of arguments is right. */
export function* execute(
  command: Command,
  request: Request,
  context: CommandContext,
): Operation<LongReply | undefined> {
  const { server, reply, client, state } = context;
  const before = reply.length;
  const isShown = !SECRET.has(command.name);
  if (!server.monitors.isEmpty && isShown) {
    server.monitors.tell(request, state.database, client.address);
  }
  const begun = performance.now();
  try {
    return (yield* command.run(request, context) ?? nothing()) || undefined;
  } catch (error) {
    fail(error, command.name, before, context);
    return undefined;
  } finally {
    const ms = performance.now() - begun;
    if (isShown) server.slowLog.add(request, ms, client.address, state.name);
  }
}

/** The operation of a command that has already finished. */
function* nothing(): Operation<undefined> {}

function fail(error: unknown, name: string, before: number, context: CommandContext): void {
  const { reply, state, server } = context;
  server.totals.errors++;
  // Part of a reply may already have been sent, and what follows would be read as its rest.
  if (reply.length > before) state.ended = true;
  else reply.error(errorText(error));
  if (!(error instanceof ReplyError || error instanceof StepwellError))
    context.onError(error, name);
}

/** Writes the next part of a long reply; false when it was the last one. */
export function* writePart(rest: LongReply, context: CommandContext): Operation<boolean> {
  try {
    return yield* rest();
  } catch (error) {
    context.server.totals.errors++;
    context.state.ended = true;
    // The client sees only that the connection ends.
    context.onError(error, '');
    return false;
  }
}

/** Finds the command or subcommand of a request, and checks its number of arguments. */
export function resolve(request: Request, context: CommandContext): Command {
  const command = context.commands.find(request[0]);
  if (command === undefined) throw unknownCommand(request);
  if (!hasArity(command, request.length)) throw wrongNumberOfArguments(command.name);
  if (command.subcommands === undefined || request.length === 1) return command;
  const subcommand = subcommandOf(command, request[1]);
  if (subcommand === undefined) {
    const container = command.name.toUpperCase();
    throw new ReplyError(
      `ERR unknown subcommand '${quotable(request[1])}'. Try ${container} HELP.`,
    );
  }
  if (!hasArity(subcommand, request.length)) throw wrongNumberOfArguments(subcommand.name);
  return subcommand;
}

function unknownCommand(request: Request): ReplyError {
  let given = '';
  for (let index = 1; index < request.length && given.length < QUOTED_NAME_MAX; index++) {
    given += `'${quotable(request[index], QUOTED_NAME_MAX - given.length)}' `;
  }
  const name = quotable(request[0]);
  const why = whyNotServed(name.toLowerCase());
  if (why !== undefined) return new ReplyError(`ERR unknown command '${name}': ${why}`);
  return new ReplyError(`ERR unknown command '${name}', with args beginning with: ${given}`);
}

function quotable(argument: Buffer, bytesMax = QUOTED_NAME_MAX): string {
  return argument.toString('utf8', 0, bytesMax);
}

/** The error reply for what a command or the store has thrown. */
export function errorText(error: unknown): string {
  if (error instanceof ReplyError) return error.message;
  if (!(error instanceof StepwellError)) return 'ERR internal error';
  switch (error.code) {
    case 'SW_NOT_INTEGER':
      return 'ERR value is not an integer or out of range';
    case 'SW_OVERFLOW':
      return 'ERR increment or decrement would overflow';
    case 'SW_POOL_FULL':
      return `OOM command not allowed: ${error.message}`;
    default:
      return `ERR ${error.code} ${error.message}`;
  }
}

/** Commands that run at once, even between MULTI and EXEC. */
const NOT_QUEUED = words('exec discard multi watch quit reset');

/** Commands that RESP2 subscribers may send: they could not tell other replies from messages. */
const OF_SUBSCRIBERS = words('ping subscribe unsubscribe psubscribe punsubscribe quit reset');

/**
 * Returns whether to run a command now, on a connection that is not in its plain state. Otherwise
 * it has queued the command and replied. Throws a ReplyError for a command that is not allowed.
 */
function admit(command: Command, request: Request, context: CommandContext): boolean {
  const { state, reply } = context;
  if (state.user === '' && !command.flags.includes('no_auth')) {
    throw new ReplyError('NOAUTH Authentication required.');
  }
  if (state.isSubscriber && reply.protocol === 2 && !OF_SUBSCRIBERS.has(command.name)) {
    throw new ReplyError(
      `ERR Can't execute '${command.name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / ` +
        'QUIT / RESET are allowed in this context',
    );
  }
  if (state.transaction === undefined || NOT_QUEUED.has(command.name)) return true;
  const writes = command.flags.includes('write');
  state.heldBytes += state.transaction.queue(request, writes);
  reply.simple('QUEUED');
  return false;
}

/** Commands of Redis that are not served, by the reason in the error reply. */
const NOT_SERVED: readonly (readonly [why: string, names: string])[] = [
  [
    'values are strings here; keep an object as one value, or its fields under keys of their own',
    // A hash in one record would need a type in the header of records, or a second store to read
    // before each command on a string.
    `hdel hexists hget hgetall hincrby hincrbyfloat hkeys hlen hmget hmset hrandfield hscan hset
     hsetnx hstrlen hvals`,
  ],
  [
    'values are strings here, no lists, sets, sorted sets or streams',
    `blmove blmpop blpop brpop brpoplpush bzmpop bzpopmax bzpopmin geoadd geodist geohash geopos
     georadius georadius_ro georadiusbymember georadiusbymember_ro geosearch geosearchstore lindex
     linsert llen lmove lmpop lpop lpos lpush lpushx lrange lrem lset ltrim pfadd pfcount pfdebug
     pfmerge pfselftest rpop rpoplpush rpush rpushx sadd scard sdiff sdiffstore sinter sintercard
     sinterstore sismember smembers smismember smove sort sort_ro spop srandmember srem sscan
     sunion sunionstore xack xadd xautoclaim xclaim xdel xgroup xinfo xlen xpending xrange xread
     xreadgroup xrevrange xsetid xtrim zadd zcard zcount zdiff zdiffstore zincrby zinter zintercard
     zinterstore zlexcount zmpop zmscore zpopmax zpopmin zrandmember zrange zrangebylex
     zrangebyscore zrangestore zrank zrem zremrangebylex zremrangebyrank zremrangebyscore zrevrange
     zrevrangebylex zrevrangebyscore zrevrank zscan zscore zunion zunionstore`,
  ],
  [
    'there are no scripts and functions here',
    'eval eval_ro evalsha evalsha_ro fcall fcall_ro function module script',
  ],
  [
    'a pool has no replicas and no cluster',
    `asking cluster failover migrate psync readonly readwrite replconf replicaof slaveof spublish
     ssubscribe sunsubscribe sync wait`,
  ],
  ['users and passwords stand in a file, see --password-file', 'acl'],
  ['see `stepwell inspect` and `stepwell check`', 'debug latency memory'],
  ['see `stepwell dump` and `stepwell load`', 'dump restore restore-asking'],
  ['the pool itself keeps the records', 'bgrewriteaof bgsave lastsave save'],
  ['each database is a store, and a store keeps its name', 'swapdb'],
  ['end the process, or send it SIGTERM', 'shutdown'],
];

/** Undefined for what is not a command of Redis. */
function whyNotServed(name: string): string | undefined {
  return NOT_SERVED.find(([, names]) => names.split(/\s+/).includes(name))?.[0];
}
