import type { Request } from '../protocol/request-reader.ts';

/** Which commands get a reply: all, none, all but this one, or all but the next one. */
export type ReplyMode = 'on' | 'off' | 'skip' | 'skip-next';

/** A connection's mode, and what its client has set. */
export class ConnectionState {
  readonly id: number;
  name = '';
  libraryName = '';
  libraryVersion = '';
  /** Number of the database that SELECT has chosen. */
  database = 0;
  /** Empty until the client has authenticated, if it has to. */
  user: string;
  /** The connection ends after the replies written so far. */
  ended = false;
  transaction: Transaction | undefined;
  /** Watched keys, by database and key. */
  readonly watched = new Map<string, WatchedKey>();
  replyMode: ReplyMode = 'on';
  /** Whether it is spared when clients hold too much memory. */
  isKept = false;
  isMonitor = false;
  /** Subscriptions, as latin1 text. */
  readonly channels = new Set<string>();
  readonly patterns = new Set<string>();
  /** Bytes of its watched keys, subscriptions and queued commands. */
  heldBytes = 0;
  lastCommand = '';

  readonly #defaultUser: string;
  #watchedBytes = 0;

  /** `user` is empty if clients have to authenticate. */
  constructor(id: number, user = 'default') {
    this.id = id;
    this.user = this.#defaultUser = user;
  }

  /** Whether commands simply run, as on most connections at most times. */
  get isPlain(): boolean {
    return this.transaction === undefined && this.user !== '' && !this.isSubscriber;
  }

  get isSubscriber(): boolean {
    return this.channels.size + this.patterns.size > 0;
  }

  /** RESET: as after connecting, except subscriptions and the library's name and version. */
  reset(): void {
    this.name = '';
    this.user = this.#defaultUser;
    this.replyMode = 'on';
    this.isMonitor = false;
    this.dropTransaction();
    this.unwatch();
  }

  dropTransaction(): void {
    this.heldBytes -= this.transaction?.bytes ?? 0;
    this.transaction = undefined;
  }

  watches(database: number, key: Buffer): boolean {
    return this.watched.has(watchName(database, key));
  }

  watch(database: number, key: Buffer, version: number | undefined): void {
    this.watched.set(watchName(database, key), { database, key: Buffer.from(key), version });
    this.#watchedBytes += 2 * key.length + WATCH_BYTES;
    this.heldBytes += 2 * key.length + WATCH_BYTES;
  }

  unwatch(): void {
    this.watched.clear();
    this.heldBytes -= this.#watchedBytes;
    this.#watchedBytes = 0;
  }
}

function watchName(database: number, key: Buffer): string {
  return `${database}:${key.toString('latin1')}`;
}

/** A key, and the version of its record at the time of WATCH. */
export interface WatchedKey {
  readonly database: number;
  readonly key: Buffer;
  readonly version: number | undefined;
}

/** About how much a watched key takes, besides the bytes of the key and of its name. */
const WATCH_BYTES = 256;

/** About how much a queued command takes, besides the bytes of its arguments. */
const COMMAND_BYTES = 256;
const ARGUMENT_BYTES = 128;

/** The commands between MULTI and EXEC. */
export class Transaction {
  readonly queued: Request[] = [];
  /** Memory that the queued commands take. */
  bytes = 0;
  /** A command was refused, so EXEC will run none. */
  isSpoilt = false;
  writes = false;

  /** Copies the arguments, which are views of input. Returns the bytes that the copy takes. */
  queue(request: Request, writes: boolean): number {
    const copy = request.map((argument) => Buffer.from(argument));
    this.queued.push(copy);
    this.writes ||= writes;
    const bytes = copy.reduce((sum, { length }) => sum + length + ARGUMENT_BYTES, COMMAND_BYTES);
    this.bytes += bytes;
    return bytes;
  }
}
