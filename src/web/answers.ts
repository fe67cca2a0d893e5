import type { PoolHandle } from '../store/api.ts';
import { open } from '../store/open.ts';
import type { PoolObserver } from '../store/watching/observer.ts';
import { type ByteStore, pageOf, recordOf } from './keys.ts';
import type { FiguresAnswer, KeysAnswer, PictureAnswer, ValueAnswer } from './messages.ts';
import type { History } from './points.ts';
import { Refusal } from './refusals.ts';

const COUNT = 50;
const PARTS = 64;
const PARTS_MAX = 256;

/** What the answers are made of. */
export interface Sources {
  readonly place: string | PoolHandle;
  readonly observer: PoolObserver;
  readonly history: History;
  /** Of the last look. */
  readonly last: Pick<FiguresAnswer, 'figures' | 'failure'>;
}

type Answer = (sources: Sources, query: URLSearchParams) => unknown;

/** By path. */
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
  const wish = {
    count: integerIn(query, 'count', COUNT),
    ...(from ? { from: Buffer.from(from) } : {}),
    ...(prefix ? { prefix: Buffer.from(prefix) } : {}),
    ...(ordered && query.has('next') ? { behind: keyIn(query, 'next') } : {}),
    ...(ordered ? {} : { cursor: integerIn(query, 'next', 0) }),
  };
  return await reading(sources, query, (store) => pageOf(store, ordered, wish));
}

async function value(sources: Sources, query: URLSearchParams): Promise<ValueAnswer> {
  const text = query.get('key');
  const key = text === null ? keyIn(query, 'id') : Buffer.from(text);
  return await reading(sources, query, (store) => recordOf(store, key));
}

async function picture(sources: Sources, query: URLSearchParams): Promise<PictureAnswer> {
  const { name, index } = storeIn(sources, query);
  const parts = Math.max(1, Math.min(PARTS_MAX, integerIn(query, 'parts', PARTS)));
  const found = await sources.observer.picture(name, parts);
  if (found === undefined) throw new Refusal(404, `no store ${name}`);
  return { picture: found, index };
}

/** Opens the store for one answer: a page that is open must not keep a store from being dropped. */
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
