import type { AsyncStore, Key, PoolHandle } from '../store/api.ts';
import { prefixRange } from '../store/keys.ts';
import { open } from '../store/open.ts';
import type { PoolObserver } from '../store/watching/observer.ts';
import type {
  FiguresAnswer,
  KeysAnswer,
  PictureAnswer,
  ShownRecord,
  ValueAnswer,
} from './messages.ts';
import type { History } from './points.ts';
import { Refusal } from './refusals.ts';
import { shown } from './shown.ts';

const COUNT = 50;
const PICTURE_PARTS = 64;
const PICTURE_PARTS_MAX = 256;

/** The data for answers. */
export interface Sources {
  readonly place: string | PoolHandle;
  readonly observer: PoolObserver;
  readonly history: History;
  /** The latest figures, or why there are none. */
  readonly last: Pick<FiguresAnswer, 'figures' | 'failure'>;
}

type Answer = (sources: Sources, query: URLSearchParams) => unknown;

/** Answers by path. */
export const ANSWERS: ReadonlyMap<string, Answer> = new Map<string, Answer>([
  ['/api/figures', figures],
  ['/api/keys', keys],
  ['/api/value', value],
  ['/api/picture', picture],
]);

function figures({ history, last }: Sources, query: URLSearchParams): FiguresAnswer {
  return { ...last, points: history.after(integerIn(query, 'after', 0)) };
}

async function keys(sources: Sources, query: URLSearchParams): Promise<KeysAnswer> {
  const { ordered } = storeIn(sources, query);
  const from = query.get('from');
  const prefix = query.get('prefix');
  const asked = {
    count: integerIn(query, 'count', COUNT),
    ...(from ? { from: Buffer.from(from) } : {}),
    ...(prefix ? { prefix: Buffer.from(prefix) } : {}),
    ...(ordered && query.has('next') ? { behind: keyIn(query, 'next') } : {}),
    ...(ordered ? {} : { cursor: integerIn(query, 'next', 0) }),
  };
  return await reading(sources, query, (store) => pageOf(store, ordered, asked));
}

async function value(sources: Sources, query: URLSearchParams): Promise<ValueAnswer> {
  const text = query.get('key');
  const key = text === null ? keyIn(query, 'id') : Buffer.from(text);
  return await reading(sources, query, (store) => recordOf(store, key));
}

async function picture(sources: Sources, query: URLSearchParams): Promise<PictureAnswer> {
  const { name, index } = storeIn(sources, query);
  const parts = Math.max(1, Math.min(PICTURE_PARTS_MAX, integerIn(query, 'parts', PICTURE_PARTS)));
  const found = await sources.observer.picture(name, parts);
  if (found === undefined) throw new Refusal(404, `no store ${name}`);
  return { picture: found, index };
}

/** Opens the store for one answer only: an open page must not keep a store from being dropped. */
async function reading<T>(
  sources: Sources,
  query: URLSearchParams,
  use: (store: ByteStore) => Promise<T>,
): Promise<T> {
  const { name } = storeIn(sources, query);
  const options = { store: name, create: false, readOnly: true, client: 'stepwell web' } as const;
  const store = await open(sources.place, { ...options, keys: 'bytes', values: 'bytes' });
  try {
    return await use(store);
  } finally {
    await store.close();
  }
}

function storeIn({ last }: Sources, query: URLSearchParams) {
  const name = query.get('store') ?? 'default';
  const store = last.figures?.stores.find((one) => one.name === name && one.state === 'ready');
  if (store === undefined) throw new Refusal(404, `no store ${name}`);
  return store;
}

function keyIn(query: URLSearchParams, name: string): Uint8Array {
  return Buffer.from(query.get(name) ?? '', 'base64url');
}

function integerIn(query: URLSearchParams, name: string, otherwise: number): number {
  const text = query.get(name);
  if (text === null) return otherwise;
  const number = Number(text);
  if (/^\d{1,16}$/.test(text) && Number.isSafeInteger(number)) return number;
  throw new Refusal(400, `${name} is a whole number`);
}

/** Most bytes to send of a key, of a value in a page of keys, and of a single value. */
const KEY_SHOWN = 256;
const VALUE_SHOWN = 256;
const WHOLE_SHOWN = 64 * 1024;
/** Most bytes of values to read for one page. */
const PAGE_BYTES = 1024 * 1024;
/** Longer keys do not fit the request line. */
const ID_BYTES_MAX = 2048;
const PAGE_MAX = 200;
/** Most parts of a walk to read for one page: in a sparse index many parts are empty. */
const PARTS_MAX = 64;
const EMPTY = new Uint8Array(0);

type ByteStore = AsyncStore<Uint8Array, Uint8Array>;

/** The requested page of keys. */
interface PageQuery {
  count: number;
  /** The prefix of the keys. */
  prefix?: Uint8Array | undefined;
  /** In an ordered store: the first key, or the last key of the previous page. */
  from?: Uint8Array | undefined;
  behind?: Uint8Array | undefined;
  /** In any other store: the cursor of the walk. */
  cursor?: number | undefined;
}

/** A page of records: of an ordered store in order, otherwise in the order of a walk. */
async function pageOf(store: ByteStore, ordered: boolean, asked: PageQuery): Promise<KeysAnswer> {
  const count = Math.max(1, Math.min(PAGE_MAX, asked.count));
  const { keys, next } = ordered
    ? await orderedPage(store, count, asked)
    : await walkedPage(store, count, asked);
  const values = await store.getMany(keys, { maxBytes: PAGE_BYTES });
  const records = keys.map((key, i) => shownRecord(key, values[i]));
  return { ordered, records, next };
}

async function orderedPage(
  store: ByteStore,
  count: number,
  { from = EMPTY, behind, prefix = EMPTY }: PageQuery,
) {
  const first = Buffer.compare(from, prefix) > 0 ? from : prefix;
  const start = behind ? { gt: behind } : { gte: first };
  const { lt } = prefixRange(prefix);
  const range = lt === undefined ? start : { ...start, lt };
  const keys = await store.keys({ ...range, limit: count + 1 }).nextMany(count + 1);
  const page = keys.slice(0, count);
  return { keys: page, next: keys.length > count ? idOf(page[count - 1]) : null };
}

/** A walk reads whole parts of the index, so a page may have more keys than `count`. */
async function walkedPage(
  store: ByteStore,
  count: number,
  { cursor = 0, prefix = EMPTY }: PageQuery,
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

/** One record with its version and remaining time. */
async function recordOf(store: ByteStore, key: Key): Promise<ValueAnswer> {
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
