import type { Operation } from '../verbs/index.ts';
import type { ConnectionState } from './connections/connection-state.ts';
import type { GatewayStore } from './gateway-store.ts';
import type { EventKind } from './messages/notifications.ts';
import type { ReplyWriter } from './protocol/reply.ts';
import type { Request } from './protocol/request-reader.ts';
import type { Client, ServerView } from './server-view.ts';

export type CommandFlag =
  | 'admin'
  | 'denyoom'
  | 'fast'
  | 'loading'
  | 'movablekeys'
  | 'no_auth'
  | 'pubsub'
  | 'readonly'
  | 'stale'
  | 'write';

/** `module` is for commands that Redis does not have. */
export type CommandGroup =
  | 'bitmap'
  | 'connection'
  | 'generic'
  | 'module'
  | 'pubsub'
  | 'server'
  | 'string'
  | 'transactions';

/** The fields of a command that `signature` derives from its syntax. */
interface Signature {
  /** In lower case; `config|get` for a subcommand. */
  readonly name: string;
  readonly group: CommandGroup;
  /** Number of words, including the name (and the subcommand); if negative, the minimum. */
  readonly arity: number;
  readonly flags: readonly CommandFlag[];
  /** Positions of the keys: the first, the last (negative counts from the end) and the step. */
  readonly keys?: readonly [first: number, last: number, step: number] | undefined;
}

/** One command. COMMAND INFO, COMMAND DOCS and the check of the arity read these fields. */
export interface Command extends Signature {
  readonly summary: string;
  readonly subcommands?: readonly Command[];
  /** No command of another client of this server runs at the same time. */
  readonly alone?: true;
  /**
   * Writes exactly one reply to `context.reply`, or begins it and returns the rest. Do first
   * whatever may throw: an error reply can only replace a reply that has not begun. A command that
   * calls a store is an operation (`*run`).
   */
  // biome-ignore lint/suspicious/noConfusingVoidType: most operations return nothing
  run(request: Request, context: CommandContext): Operation<LongReply | void> | undefined;
}

/**
 * The rest of a reply that may not fit in memory. Each call writes a part and returns whether more
 * follows. The next call comes when the client has read most of the earlier parts.
 */
export type LongReply = () => Operation<boolean>;

/** Called for internal errors of the gateway or the store. */
export type ErrorHook = (error: unknown, command: string) => void;

/** What a command may see and change. */
export interface CommandContext {
  /** Store of the database that the connection has selected. */
  readonly store: GatewayStore;
  readonly reply: ReplyWriter;
  readonly state: ConnectionState;
  readonly commands: CommandTable;
  readonly server: ServerView;
  /** The connection that sent the command. */
  readonly client: Client;
  readonly onError: ErrorHook;
  /** Records that the client has authenticated as this user. */
  allow(user: string): void;
  /** Chooses the database of the commands that follow. */
  select(database: number): void;
  /** Notifies subscribers of keyspace events that a key has changed. It never fails. */
  changed(kind: EventKind, event: string, key: Uint8Array): Operation<void>;
}

/** The Redis version whose behaviour the gateway follows; clients choose features by it. */
export const REDIS_VERSION = '7.0.0';

/**
 * Reads a syntax such as `mset key value [key value ...]`. Words in brackets are optional, and
 * words named `key`, `newkey`, `key1` … are keys.
 */
export function signature(syntax: string, group: CommandGroup, ...flags: CommandFlag[]): Signature {
  let required = syntax;
  // Brackets nest, so remove the innermost ones first.
  while (required.includes('[')) required = required.replace(/ ?\[[^[\]]*\]/g, '');
  const [name, ...others] = required.split(' ');
  const words = [...name.split('|'), ...others];
  const isKey = (word: string) => /^(new)?key\d?$/.test(word);
  const first = words.findIndex(isKey);
  const repeated = /\[(key.*) \.\.\.\]/.exec(syntax)?.[1].split(' ').length;
  const last = repeated === undefined ? words.findLastIndex(isKey) : -1;
  return {
    name,
    group,
    arity: required === syntax ? words.length : -words.length,
    flags,
    keys: first < 0 ? undefined : [first, last, repeated ?? 1],
  };
}

/** Finds a subcommand by the word that follows the command's name. */
export function subcommandOf({ name, subcommands }: Command, word: Buffer): Command | undefined {
  const wanted = `${name}|${word.toString('latin1', 0, SUBCOMMAND_BYTES_MAX).toLowerCase()}`;
  return subcommands?.find((subcommand) => subcommand.name === wanted);
}

/** No subcommand has a longer name. */
const SUBCOMMAND_BYTES_MAX = 32;

export function hasArity(command: Command, words: number): boolean {
  return command.arity >= 0 ? words === command.arity : words >= -command.arity;
}

/**
 * Finds commands by name, in any mixture of cases. A hash table compares the names as bytes, which
 * is faster than making a string of each.
 */
export class CommandTable {
  readonly all: readonly Command[];
  /** A power of two, at most half full: every search ends at an empty slot. */
  readonly #slots: (Command | undefined)[];
  readonly #nameLengthMax: number;

  constructor(commands: readonly Command[]) {
    this.all = commands;
    this.#slots = Array(2 ** Math.ceil(Math.log2(2 * commands.length))).fill(undefined);
    for (const command of commands) this.#slots[this.#slotOf(Buffer.from(command.name))] = command;
    this.#nameLengthMax = Math.max(...commands.map(({ name }) => name.length));
  }

  find(name: Buffer): Command | undefined {
    return name.length > this.#nameLengthMax ? undefined : this.#slots[this.#slotOf(name)];
  }

  /** The slot of the command with this name, or the empty slot where it would be. */
  #slotOf(name: Buffer): number {
    let hash = 0;
    // Upper and lower case of an ASCII letter differ in this one bit.
    for (let i = 0; i < name.length; i++) hash = (Math.imul(hash, 31) + (name[i] | 32)) | 0;
    const mask = this.#slots.length - 1;
    let slot = hash & mask;
    for (;;) {
      const command = this.#slots[slot];
      if (command === undefined || isNamed(command, name)) return slot;
      slot = (slot + 1) & mask;
    }
  }
}

function isNamed({ name }: Command, given: Buffer): boolean {
  if (given.length !== name.length) return false;
  for (let i = 0; i < name.length; i++) {
    const byte = given[i];
    const isUpper = byte >= 65 && byte <= 90;
    if ((isUpper ? byte | 32 : byte) !== name.charCodeAt(i)) return false;
  }
  return true;
}
