import type { IndexWalk } from '../../indexes/contract.ts';
import type { Request } from '../../indexes/request.ts';
import { HEADER_BYTES } from '../../records/layout.ts';
import type { Encoding, Entry, Key, KeyPage, Page, Value } from '../api.ts';
import { decodeKey, decodeValue } from '../decoding.ts';
import { walkOf } from '../store-walk.ts';
import type { Session } from './session.ts';

/** Groups that one page may pass without finding enough records, beside its count. */
const EMPTY_GROUPS_MAX = 64;

/** A walk over a store, some buckets at a time; as `StoreWalk`, with promises. */
export class RemoteWalk<V extends Value> {
  readonly #session: Session;
  readonly #walk: IndexWalk;
  readonly #encodings: { keys: Encoding; values: Encoding };

  constructor(
    session: Session,
    encodings: { keys: Encoding; values: Encoding },
    cursor = 0,
    prefix?: Key,
  ) {
    this.#session = session;
    this.#walk = walkOf(session.index, cursor, prefix);
    this.#encodings = encodings;
  }

  get done(): boolean {
    return this.#walk.done;
  }

  entries(): Promise<Entry<V>[]> {
    const { keys, values } = this.#encodings;
    return this.#step((request, keyBytes) => ({
      key: decodeKey(request, keyBytes, keys),
      value: decodeValue(request, values) as V,
      version: request.foundVersion,
    }));
  }

  keys(): Promise<Uint8Array[]> {
    const take = ({ outgoing }: Request, keyBytes: number) =>
      outgoing.u8.slice(HEADER_BYTES, HEADER_BYTES + keyBytes);
    return this.#step(take, true);
  }

  /** Records until there are `count` of them, or so many groups were empty. */
  async page(count: number): Promise<Page<V>> {
    const entries = await this.#gather(count, () => this.entries());
    return { cursor: this.#walk.cursor, entries };
  }

  /** As `page`, of keys alone. */
  async keyPage(count: number): Promise<KeyPage> {
    const keys = await this.#gather(count, () => this.keys());
    return { cursor: this.#walk.cursor, keys };
  }

  async #gather<T>(count: number, next: () => Promise<T[]>): Promise<T[]> {
    const found: T[] = [];
    for (let groups = 0; groups < EMPTY_GROUPS_MAX + count; groups++) {
      if (this.done || found.length >= count) break;
      found.push(...(await next()));
    }
    return found;
  }

  async #step<T>(visit: (request: Request, keyBytes: number) => T, keysOnly = false): Promise<T[]> {
    const found: T[] = [];
    const take = (request: Request, keyBytes: number) => {
      found.push(visit(request, keyBytes));
    };
    await this.#session.runOne(() => this.#walk.next(take, keysOnly));
    return found;
  }
}
