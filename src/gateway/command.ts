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

/**
 * One command. COMMAND, COMMAND INFO and COMMAND DOCS are derived from these fields, and so is the
 * check of the number of arguments.
 */
export interface Command {
  /** In lower case; `config|get` for a subcommand. */
  readonly name: string;
  readonly summary: string;
  readonly group: CommandGroup;
  /** Number of words with the name (and the subcommand's); if negative, the least number. */
  readonly arity: number;
  readonly flags: readonly CommandFlag[];
  /** Where keys are among the words: first, last (negative counts from the end) and distance. */
  readonly keys?: readonly [first: number, last: number, step: number];
  readonly subcommands?: readonly Command[];
  /** No command of another client of this server runs meanwhile. */
  readonly alone?: true;
  /**
   * Writes exactly one reply to `context.reply`, or its beginning and returns the rest. Whatever
   * may throw comes first: the error's reply can only take the place of a reply that has not begun.
   * What calls a store is an operation (`*run`).
   */
  // biome-ignore lint/suspicious/noConfusingVoidType: most operations return nothing
  run(request: Request, context: CommandContext): Operation<LongReply | void> | undefined;
}

/**
 * The rest of a reply that may be too long for the memory. Each call writes a part of it, and is
 * false for the last one; the next call comes when the client has read most of what is under way.
 */
export type LongReply = () => Operation<boolean>;

/** Told of failures that are the gateway's or the store's own mistakes. */
export type ErrorHook = (error: unknown, command: string) => void;

/** What a command may see and change. */
export interface CommandContext {
  /** Store of the database that the connection has selected. */
  readonly store: GatewayStore;
  readonly reply: ReplyWriter;
  readonly state: ConnectionState;
  readonly commands: CommandTable;
  readonly server: ServerView;
  /** The connection that the command came by. */
  readonly client: Client;
  readonly onError: ErrorHook;
  /** The client has authenticated itself as this user. */
  allow(user: string): void;
  /** Chooses the database of the commands that follow. */
  select(database: number): void;
  /** Tells subscribers of keyspace notifications that a key has changed. It never fails. */
  changed(kind: EventKind, event: string, key: Uint8Array): Operation<void>;
}

/** The Redis version whose behaviour the gateway follows; clients choose features by it. */
export const REDIS_VERSION = '7.0.0';

export function hasArity(command: Command, words: number): boolean {
  return command.arity >= 0 ? words === command.arity : words >= -command.arity;
}

/**
 * Finds commands by name in any mixture of cases: a hash table of names, which are compared as
 * bytes, because making a string of one takes longer.
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

  /** Where the command of that name stands, or would stand. */
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
