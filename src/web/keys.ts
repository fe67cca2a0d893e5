import type { AsyncStore, Key } from '../store/api.ts';
import { prefixRange } from '../store/keys.ts';
import type { KeysAnswer, ShownRecord, ValueAnswer } from './messages.ts';
import { shown } from './shown.ts';

/** Bytes of a key, of a value in a page and of a value by itself that are sent. */
const KEY_SHOWN = 256;
const VALUE_SHOWN = 256;
const WHOLE_SHOWN = 64 * 1024;
/** Bytes of values that are read for one page. */
const PAGE_BYTES = 1024 * 1024;
/** A longer key does not fit a request's line. */
const ID_BYTES_MAX = 2048;
const PAGE_MAX = 200;
/** Parts of a walk that are asked for until a page is full: those of a sparse index are empty. */
const PARTS_MAX = 64;
const EMPTY = new Uint8Array(0);

/** A store as the browser of keys reads it: all bytes. */
export type ByteStore = AsyncStore<Uint8Array, Uint8Array>;

export interface PageWish {
  count: number;
  /** What the keys begin with. */
  prefix?: Uint8Array | undefined;
  /** Of an ordered store: the first key, or the key behind which the page begins. */
  from?: Uint8Array | undefined;
  behind?: Uint8Array | undefined;
  /** Of another store. */
  cursor?: number | undefined;
}

/** A page of records: in order where the store has one, else of a walk. */
export async function pageOf(
  store: ByteStore,
  ordered: boolean,
  wish: PageWish,
): Promise<KeysAnswer> {
  const count = Math.max(1, Math.min(PAGE_MAX, wish.count));
  const { keys, next } = ordered
    ? await orderedPage(store, count, wish)
    : await walkedPage(store, count, wish);
  const values = await store.getMany(keys, { maxBytes: PAGE_BYTES });
  const records = keys.map((key, i) => shownRecord(key, values[i]));
  return { ordered, records, next };
}

async function orderedPage(
  store: ByteStore,
  count: number,
  { from = EMPTY, behind, prefix = EMPTY }: PageWish,
) {
  const first = Buffer.compare(from, prefix) > 0 ? from : prefix;
  const start = behind ? { gt: behind } : { gte: first };
  const { lt } = prefixRange(prefix);
  const range = lt === undefined ? start : { ...start, lt };
  const keys = await store.keys({ ...range, limit: count + 1 }).nextMany(count + 1);
  const page = keys.slice(0, count);
  return { keys: page, next: keys.length > count ? idOf(page[count - 1]) : null };
}

/** A walk takes whole parts of the index, so a page may be longer than was asked for. */
async function walkedPage(
  store: ByteStore,
  count: number,
  { cursor = 0, prefix = EMPTY }: PageWish,
) {
  const keys: Uint8Array[] = [];
  let next = cursor;
  for (let part = 0; part < PARTS_MAX && keys.length < count; part++) {
    const found = await store.scanKeys(next, count - keys.length);
    keys.push(...found.keys.filter((key) => beginsWith(key, prefix)));
    next = found.cursor;
    if (next === 0) break;
  }
  return { keys, next: next === 0 ? null : String(next) };
}

function beginsWith(key: Uint8Array, prefix: Uint8Array): boolean {
  return Buffer.compare(key.subarray(0, prefix.length), prefix) === 0;
}

function shownRecord(key: Uint8Array, value: Uint8Array | undefined): ShownRecord {
  const about = { id: idOf(key), key: shown(key, KEY_SHOWN) };
  return { ...about, value: value === undefined ? null : shown(value, VALUE_SHOWN) };
}

/** One record with what else is known of it. */
export async function recordOf(store: ByteStore, key: Key): Promise<ValueAnswer> {
  const bytes = typeof key === 'string' ? Buffer.from(key) : key;
  const [entry, ttl] = await Promise.all([store.getEntry(bytes), store.ttl(bytes)]);
  return {
    id: idOf(bytes),
    key: shown(bytes, KEY_SHOWN),
    value: entry === undefined ? null : shown(entry.value, WHOLE_SHOWN),
    version: entry?.version ?? null,
    ttlMs: ttl === undefined || ttl === Number.POSITIVE_INFINITY ? null : ttl,
  };
}

function idOf(key: Uint8Array): string | null {
  return key.length > ID_BYTES_MAX ? null : Buffer.from(key).toString('base64url');
}
