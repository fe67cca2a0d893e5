import type { Key, Store } from '../store/api.ts';
import type { RangeBounds, RangeOptions, ScanOptions } from '../store/ordered-api.ts';
import type { ClientMemory } from './client-memory.ts';
import type { ConnectionState } from './connection-state.ts';
import type { GatewayLimits } from './limits.ts';
import type { ReplyWriter } from './reply.ts';
import type { Request } from './request-reader.ts';

/**
 * The part of a store that the gateway calls. Open the store with `values: 'bytes'`: replies are
 * bytes, and any other encoding only costs a conversion there and back.
 */
export type GatewayStore = Pick<
  Store,
  | 'name'
  | 'get'
  | 'has'
  | 'set'
  | 'insert'
  | 'write'
  | 'take'
  | 'increment'
  | 'getMany'
  | 'setMany'
  | 'deleteMany'
  | 'read'
  | 'size'
  | 'scanKeys'
  | 'stats'
> & {
  /** These need an ordered index; others raise SW_UNSUPPORTED. */
  keys(range: ScanOptions): Iterable<Key>;
  count(bounds: RangeBounds): number;
  clear(range?: RangeOptions): void;
};

export type CommandFlag = 'readonly' | 'write' | 'denyoom' | 'fast' | 'loading' | 'stale';

/** `module` is for commands that Redis does not have. */
export type CommandGroup =
  | 'connection'
  | 'generic'
  | 'module'
  | 'server'
  | 'string'
  | 'transactions';

/**
 * One command. COMMAND, COMMAND INFO and COMMAND DOCS are derived from these fields, and so is the
 * check of the number of arguments.
 */
export interface Command {
  /** In lower case; `config|get` for a subcommand. */
  readonly name: string;
  readonly summary: string;
  readonly group: CommandGroup;
  /** Number of words with the name (and the subcommand's); at least so many if negative. */
  readonly arity: number;
  readonly flags: readonly CommandFlag[];
  /** Where keys are among the words: first, last (negative counts from the end) and distance. */
  readonly keys?: readonly [first: number, last: number, step: number];
  readonly subcommands?: readonly Command[];
  /**
   * Writes exactly one reply to `context.reply`, or its beginning and returns the rest. Whatever
   * may throw comes first: the error's reply can only take the place of a reply that has not begun.
   */
  run(request: Request, context: CommandContext): LongReply | undefined;
}

/**
 * The rest of a reply that may be too long for the memory. Each step writes a part of it; the next
 * step comes when the client has read most of what is under way.
 */
export type LongReply = Iterator<undefined, undefined>;

/** What a command may see and change. */
export interface CommandContext {
  readonly store: GatewayStore;
  readonly reply: ReplyWriter;
  readonly state: ConnectionState;
  readonly commands: CommandTable;
  readonly server: ServerView;
}

/** Finds commands by name in any mixture of cases. */
export interface CommandTable {
  readonly all: readonly Command[];
  find(name: Buffer): Command | undefined;
}

/** What INFO and CONFIG GET report about the server. */
export interface ServerView {
  readonly host: string;
  readonly port: number;
  readonly maxConnections: number;
  readonly limits: GatewayLimits;
  /** Of all connections. */
  readonly memory: ClientMemory;
  readonly connections: number;
  readonly startedAt: number;
  readonly totals: Totals;
}

/** Counters since the server began. */
export interface Totals {
  connections: number;
  rejectedConnections: number;
  evictedConnections: number;
  commands: number;
  errors: number;
  bytesIn: number;
  bytesOut: number;
}

/** The Redis version whose behaviour the gateway follows; clients choose features by it. */
export const REDIS_VERSION = '7.0.0';

export const NOT_AN_INTEGER = 'ERR value is not an integer or out of range';
export const SYNTAX_ERROR = 'ERR syntax error';

/** Raised by commands for a reply that is an error; `message` is the reply's whole text. */
export class ReplyError extends Error {
  override readonly name = 'ReplyError';
}

export function wrongNumberOfArguments(name: string): ReplyError {
  return new ReplyError(`ERR wrong number of arguments for '${name}' command`);
}

export function hasArity(command: Command, words: number): boolean {
  return command.arity >= 0 ? words === command.arity : words >= -command.arity;
}

/** An option or subcommand in upper case; '' when it is longer than any that exists. */
export function keyword(argument: Buffer): string {
  return argument.length > 32 ? '' : argument.toString('latin1').toUpperCase();
}

/** A decimal integer in Redis' strict form: no plus sign, blanks or leading zeros. */
export function parseInteger(argument: Buffer, error = NOT_AN_INTEGER): bigint {
  const text = argument.length > 20 ? '' : argument.toString('latin1');
  if (!/^(?:0|-?[1-9][0-9]*)$/.test(text)) throw new ReplyError(error);
  const value = BigInt(text);
  if (BigInt.asIntN(64, value) !== value) throw new ReplyError(error);
  return value;
}

/** A connection keeps its names. */
const NAME_BYTES_MAX = 1024;

/** Names that CLIENT accepts are printable and without blanks, so that lists of them stay lists. */
export function isPlainName(argument: Buffer): boolean {
  if (argument.length > NAME_BYTES_MAX) throw new ReplyError('ERR the name is too long');
  return argument.every((byte) => byte >= 0x21 && byte <= 0x7e);
}
