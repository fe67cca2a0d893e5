import type { ExpiryOptions, KeyPage } from '../../store/api.ts';
import type { Operation } from '../../verbs/index.ts';
import { keyword, parseInteger, ReplyError, readOptions, SYNTAX_ERROR } from '../arguments.ts';
import { type Command, type CommandContext, signature } from '../command.ts';
import type { GatewayStore } from '../gateway-store.ts';
import { Glob } from '../glob.ts';
import { ReplyWriter } from '../protocol/reply.ts';
import type { Request } from '../protocol/request-reader.ts';
import { OUTPUT_BYTES_MAX } from '../settings.ts';
import { container } from './support/container.ts';
import { retry } from './support/modify.ts';

export const del: Command = {
  ...signature('del key [key ...]', 'generic', 'write'),
  summary: 'Deletes keys and returns how many existed.',
  *run(request, context) {
    yield* removeKeys(request, context);
  },
};

export const unlink: Command = {
  ...del,
  ...signature('unlink key [key ...]', 'generic', 'write', 'fast'),
  summary: 'Deletes keys and returns how many existed; the same as DEL here.',
};

function* removeKeys(request: Request, context: CommandContext): Operation<void> {
  const { store, reply, server } = context;
  const keys = request.slice(1);
  if (!server.settings.notifications.isOn) {
    reply.integer(yield* store.deleteMany(keys));
    return;
  }
  const removed: Buffer[] = [];
  for (const key of keys) if (yield* store.delete(key)) removed.push(key);
  reply.integer(removed.length);
  for (const key of removed) yield* context.changed('g', 'del', key);
}

export const exists: Command = {
  ...signature('exists key [key ...]', 'generic', 'readonly', 'fast'),
  summary: 'Returns how many of the keys exist; a key named twice counts twice.',
  *run(request, { store, reply }) {
    let count = 0;
    for (let at = 1; at < request.length; at++) if (yield* store.has(request[at])) count++;
    reply.integer(count);
  },
};

export const touch: Command = {
  ...exists,
  name: 'touch',
  summary: 'Reads keys, which restarts the time of sliding ones; returns how many exist.',
};

export const type: Command = {
  ...signature('type key', 'generic', 'readonly', 'fast'),
  summary: 'Returns the type of a value: string, or none for a key that does not exist.',
  *run(request, { store, reply }) {
    reply.simple((yield* store.has(request[1])) ? 'string' : 'none');
  },
};

export const rename: Command = {
  ...signature('rename key newkey', 'generic', 'write'),
  summary: 'Gives a value another key, which loses its own value.',
  alone: true,
  *run([, source, target], context) {
    yield* renameTo(source, target, true, context);
    context.reply.ok();
  },
};

export const renamenx: Command = {
  ...signature('renamenx key newkey', 'generic', 'write', 'fast'),
  summary: 'Gives a value another key that does not exist yet.',
  alone: true,
  *run([, source, target], context) {
    const isDone = yield* renameTo(source, target, false, context);
    context.reply.integer(isDone ? 1 : 0);
  },
};

function* renameTo(
  source: Buffer,
  target: Buffer,
  replace: boolean,
  context: CommandContext,
): Operation<boolean> {
  const { store } = context;
  if (source.equals(target) && (yield* store.has(source))) return false;
  const outcome = yield* transfer({ from: store, source, to: store, target, replace, move: true });
  if (outcome === 'no source') throw new ReplyError('ERR no such key');
  if (outcome !== 'done') return false;
  yield* context.changed('g', 'rename_from', source);
  yield* context.changed('g', 'rename_to', target);
  return true;
}

const SAME = 'ERR source and destination objects are the same';

export const copy: Command = {
  ...signature('copy key newkey [DB database] [REPLACE]', 'generic', 'write', 'denyoom'),
  summary: 'Copies a value to another key, also of another database (DB), also over one (REPLACE).',
  alone: true,
  *run(request, context) {
    const { database, replace } = parseCopyOptions(request, context);
    const [, source, target] = request;
    const { store, server, state } = context;
    if (database === state.database && source.equals(target)) throw new ReplyError(SAME);
    const to = server.databases.get(database).store;
    const outcome = yield* transfer({ from: store, source, to, target, replace, move: false });
    context.reply.integer(outcome === 'done' ? 1 : 0);
    if (outcome === 'done') yield* context.changed('g', 'copy_to', target);
  },
};

export const move: Command = {
  ...signature('move key database', 'generic', 'write', 'fast'),
  summary: 'Moves a key to another database in which it does not exist.',
  alone: true,
  *run([, key, argument], context) {
    const database = context.server.databases.parse(argument);
    const { store, server, state } = context;
    if (database === state.database) throw new ReplyError(SAME);
    const to = server.databases.get(database).store;
    const names = { source: key, target: key };
    const outcome = yield* transfer({ from: store, to, ...names, replace: false, move: true });
    context.reply.integer(outcome === 'done' ? 1 : 0);
    if (outcome === 'done') yield* context.changed('g', 'move_from', key);
  },
};

function parseCopyOptions(
  request: Request,
  context: CommandContext,
): { database: number; replace: boolean } {
  const { DB, REPLACE } = readOptions(request, 3, { DB: 1, REPLACE: 0 });
  const database =
    DB === undefined ? context.state.database : context.server.databases.parse(DB[0]);
  return { database, replace: REPLACE !== undefined };
}

interface Found {
  readonly value: Uint8Array;
  readonly version: number;
  readonly expiry: ExpiryOptions;
}

type Transferred = 'done' | 'no source' | 'target exists';

interface Transfer {
  readonly from: GatewayStore;
  readonly source: Buffer;
  readonly to: GatewayStore;
  readonly target: Buffer;
  /** Whether to replace an existing target. */
  readonly replace: boolean;
  /** Whether to delete the source. */
  readonly move: boolean;
}

/**
 * Writes a value under another key with the same time to live, and for a move deletes the source.
 * The target is written first, so no value is lost if this process dies in between. Clients of
 * other processes may see both.
 */
function* transfer({ from, source, to, target, replace, move }: Transfer): Operation<Transferred> {
  let outcome: Transferred = 'done';
  let isWritten = false;
  yield* retry(function* () {
    const found = yield* find(from, source);
    if (found === 'changed') return false;
    if (found === undefined) {
      // If another client deleted it after the target was written, the move is complete.
      if (!isWritten) outcome = 'no source';
      return true;
    }
    if (replace || isWritten) yield* to.set(target, found.value, found.expiry);
    else if (!(yield* to.insert(target, found.value, found.expiry))) {
      outcome = 'target exists';
      return true;
    }
    isWritten = true;
    return !move || (yield* from.compareAndDelete(source, found.version));
  });
  return outcome;
}

function* find(store: GatewayStore, key: Buffer): Operation<Found | 'changed' | undefined> {
  const entry = yield* store.getEntry(key);
  const metadata = yield* store.metadata(key);
  if (entry === undefined) return undefined;
  if (metadata?.version !== entry.version) return 'changed';
  const { expiresAt } = metadata;
  const isTimed = expiresAt !== Number.POSITIVE_INFINITY;
  // Infinity overrides a default of the store.
  const expiry = isTimed ? { expiresAt } : { ttlMs: Number.POSITIVE_INFINITY };
  return { value: entry.value, version: entry.version, expiry };
}

const inObject = (name: string) => signature(`object|${name} key`, 'generic', 'readonly');
/** The longest string that Redis embeds in its object. */
const EMBEDDED_BYTES_MAX = 44;

const encoding: Command = {
  ...inObject('encoding'),
  summary: 'Returns how Redis would store such a value: int, embstr or raw.',
  *run([, , key], { store, reply }) {
    reply.bulkOrNull(yield* store.read(key, encodingOf));
  },
};

const refcount: Command = {
  ...inObject('refcount'),
  summary: 'Returns 1: values are not shared.',
  *run([, , key], context) {
    if (yield* existsOrNull(key, context)) context.reply.integer(1);
  },
};

const idletime: Command = {
  ...inObject('idletime'),
  summary: 'Refused: times of access are not kept.',
  *run([, , key], context) {
    if (yield* existsOrNull(key, context)) {
      throw new ReplyError('ERR times of access are kept of records that slide only');
    }
  },
};

const freq: Command = {
  ...inObject('freq'),
  summary: 'Refused: frequencies of access are not kept.',
  *run([, , key], context) {
    if (!(yield* existsOrNull(key, context))) return;
    throw new ReplyError(
      'ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note ' +
        'that when switching between policies at runtime LRU and LFU data will take some time to ' +
        'adjust.',
    );
  },
};

export const object = container({
  ...signature('object subcommand [argument ...]', 'generic', 'readonly'),
  summary: 'Describes how a value is stored.',
  subcommands: [encoding, freq, idletime, refcount],
});

function* existsOrNull(key: Buffer, { store, reply }: CommandContext): Operation<boolean> {
  const exists = yield* store.has(key);
  if (!exists) reply.null();
  return exists;
}

function encodingOf(bytes: Uint8Array): string {
  const text = bytes.length > 20 ? '' : Buffer.from(bytes).toString('latin1');
  const isInteger = /^(?:0|-?[1-9][0-9]*)$/.test(text);
  if (isInteger && BigInt.asIntN(64, BigInt(text)) === BigInt(text)) return 'int';
  return bytes.length <= EMBEDDED_BYTES_MAX ? 'embstr' : 'raw';
}

const COUNT_DEFAULT = 10;
/** COUNT is a hint. More than this would make other clients wait. */
const COUNT_MAX = 16_384;
/** Keys that SCAN asks the store for at a time. A key has up to 64 KiB. */
const COUNT_TOGETHER = 64;
const INVALID_CURSOR = 'ERR invalid cursor';

export const scan: Command = {
  ...signature('scan cursor [MATCH pattern] [COUNT count] [TYPE type]', 'generic', 'readonly'),
  summary: 'Walks over the keys, some per call: begin with 0, go on with the cursor returned.',
  *run(request, { store, reply }) {
    const cursor = parseCursor(request[1]);
    const { match, count, type } = parseScanOptions(request);
    if (type !== 'STRING') {
      reply.array(2);
      reply.bulk('0');
      reply.array(0);
      return;
    }
    const page = yield* pageOf(store, cursor, count, match);
    reply.array(2);
    reply.bulk(String(page.cursor));
    reply.array(page.keys.length);
    for (const key of page.keys) reply.bulk(key);
  },
};

/** About `count` keys; fewer if they are long, because a whole page is in memory. */
function* pageOf(
  store: GatewayStore,
  from: number,
  count: number,
  match?: Glob,
): Operation<KeyPage> {
  const keys: Uint8Array[] = [];
  let cursor = from;
  let bytes = 0;
  for (let left = count; left > 0 && bytes < OUTPUT_BYTES_MAX; left -= COUNT_TOGETHER) {
    // With the pattern's prefix, an ordered store skips other keys.
    const hint = match && { prefix: match.prefix };
    const page = yield* store.scanKeys(cursor, Math.min(left, COUNT_TOGETHER), hint);
    for (const key of page.keys) {
      if (match?.matches(key) === false) continue;
      keys.push(key);
      bytes += key.length;
    }
    cursor = page.cursor;
    if (cursor === 0) break;
  }
  return { cursor, keys };
}

function parseCursor(argument: Buffer): number {
  const cursor = parseInteger(argument, INVALID_CURSOR);
  if (cursor < 0n || cursor > BigInt(Number.MAX_SAFE_INTEGER)) {
    throw new ReplyError(INVALID_CURSOR);
  }
  return Number(cursor);
}

function parseScanOptions(request: Request): { match?: Glob; count: number; type: string } {
  const { MATCH, COUNT, TYPE } = readOptions(request, 2, { MATCH: 1, COUNT: 1, TYPE: 1 });
  const match = MATCH && new Glob(MATCH[0]);
  return {
    match: match?.matchesAll ? undefined : match,
    count: COUNT === undefined ? COUNT_DEFAULT : parseCount(COUNT[0]),
    type: TYPE === undefined ? 'STRING' : keyword(TYPE[0]),
  };
}

function parseCount(argument: Buffer): number {
  const count = parseInteger(argument);
  if (count < 1n) throw new ReplyError(SYNTAX_ERROR);
  return count > COUNT_MAX ? COUNT_MAX : Number(count);
}

/** Keys that KEYS asks the store for at a time. */
const KEYS_TOGETHER = 256;

export const keys: Command = {
  ...signature('keys pattern', 'generic', 'readonly'),
  summary: 'Returns all keys that match a pattern. All other clients wait: prefer SCAN.',
  *run([, argument], { store, reply, server }) {
    const pattern = new Glob(argument);
    const { replyBytesMax } = server.limits;
    // A store that grows during the walk may return a key twice.
    const seen = new Set<string>();
    const body = new ReplyWriter();
    let cursor = 0;
    do {
      const page = yield* store.scanKeys(cursor, KEYS_TOGETHER, { prefix: pattern.prefix });
      for (const key of page.keys) {
        if (!pattern.matches(key)) continue;
        const name = Buffer.from(key).toString('latin1');
        if (seen.has(name)) continue;
        seen.add(name);
        body.bulk(key);
      }
      if (body.length > replyBytesMax) {
        throw new ReplyError(`ERR the reply would be longer than ${replyBytesMax} bytes: use SCAN`);
      }
      cursor = page.cursor;
    } while (cursor !== 0);
    reply.array(seen.size);
    reply.append(body);
  },
};

/** Keys per page, and most pages that RANDOMKEY skips. */
const PAGE_KEYS = 16;
const PAGES_MAX = 8;

export const randomkey: Command = {
  ...signature('randomkey', 'generic', 'readonly'),
  summary: 'Returns some key, or null when there is none.',
  *run(_request, context) {
    context.reply.bulkOrNull(yield* randomKey(context));
  },
};

/** Each call continues a walk through the store by a random number of pages. */
function* randomKey({ store, server, state }: CommandContext): Operation<Uint8Array | undefined> {
  const database = server.databases.get(state.database);
  let pages = Math.floor(Math.random() * PAGES_MAX);
  let found: readonly Uint8Array[] = [];
  let wraps = 0;
  while (wraps < 2 && (pages-- > 0 || found.length === 0)) {
    const page = yield* pageAt(store, database.randomCursor);
    database.randomCursor = page.cursor;
    if (page.keys.length > 0) found = page.keys;
    if (page.cursor === 0) wraps++;
  }
  return found[Math.floor(Math.random() * found.length)];
}

/** A cursor may be invalid if the store has changed. */
function* pageAt(store: GatewayStore, cursor: number): Operation<KeyPage> {
  try {
    return yield* store.scanKeys(cursor, PAGE_KEYS);
  } catch (error) {
    if (cursor === 0) throw error;
    return yield* store.scanKeys(0, PAGE_KEYS);
  }
}
