import { StepwellError } from '../../../errors.ts';
import type {
  Key,
  KeyPage,
  StoreStats,
  Value,
  WriteCondition,
  WriteResult,
} from '../../../store/api.ts';
import type { GatewayStore } from '../../command.ts';

const INTEGER = /^(?:0|-?[1-9][0-9]*)$/;

/** The part of a store that the gateway calls, over a Map. It counts the calls of each method. */
export class FakeStore implements GatewayStore {
  readonly name = 'fake';
  readonly calls: Record<string, number> = {};
  /** Raised by the next call, once. */
  failure: unknown;

  readonly #values = new Map<string, Buffer>();

  get size(): number {
    return this.#values.size;
  }

  get(key: Key): Uint8Array | undefined {
    this.#called('get');
    return this.#values.get(name(key));
  }

  has(key: Key): boolean {
    this.#called('has');
    return this.#values.has(name(key));
  }

  set(key: Key, value: Value): void {
    this.#called('set');
    this.#values.set(name(key), copy(value));
  }

  insert(key: Key, value: Value): boolean {
    return this.write(key, value, { when: 'absent' }).written;
  }

  write(
    key: Key,
    value: Value,
    { when = 'always', previous = false }: { when?: WriteCondition; previous?: boolean } = {},
  ): WriteResult<Uint8Array> {
    this.#called('write');
    const found = this.#values.get(name(key));
    const written = when === 'always' || (when === 'absent') === (found === undefined);
    if (written) this.#values.set(name(key), copy(value));
    return { written, previous: previous ? found : undefined };
  }

  take(key: Key): Uint8Array | undefined {
    this.#called('take');
    const found = this.#values.get(name(key));
    this.#values.delete(name(key));
    return found;
  }

  increment(key: Key, by?: number): number;
  increment(key: Key, by: bigint): bigint;
  increment(key: Key, by: number | bigint = 1): number | bigint {
    this.#called('increment');
    const text = this.#values.get(name(key))?.toString('latin1') ?? '0';
    if (!INTEGER.test(text)) throw new StepwellError('SW_NOT_INTEGER', 'not an integer');
    const sum = BigInt(text) + BigInt(by);
    if (BigInt.asIntN(64, sum) !== sum) throw new StepwellError('SW_OVERFLOW', 'overflow');
    this.#values.set(name(key), Buffer.from(String(sum)));
    return typeof by === 'bigint' ? sum : Number(sum);
  }

  getMany(keys: readonly Key[], options: { maxBytes?: number } = {}): (Uint8Array | undefined)[] {
    this.#called('getMany');
    let left = options.maxBytes ?? Number.POSITIVE_INFINITY;
    const values = keys.map((key) => this.#values.get(name(key)));
    const end = values.findIndex((value, i) => {
      left -= value?.length ?? 0;
      return left < 0 && i > 0;
    });
    return end < 0 ? values : values.slice(0, end);
  }

  setMany(entries: Iterable<readonly [Key, Value]>): void {
    this.#called('setMany');
    for (const [key, value] of entries) this.#values.set(name(key), copy(value));
  }

  deleteMany(keys: readonly Key[]): number {
    this.#called('deleteMany');
    return keys.filter((key) => this.#values.delete(name(key))).length;
  }

  read<T>(key: Key, use: (bytes: Uint8Array) => T): T | undefined {
    this.#called('read');
    const found = this.#values.get(name(key));
    return found && use(found);
  }

  scanKeys(cursor: number, count = 10): KeyPage {
    this.#called('scanKeys');
    const all = [...this.#values.keys()];
    const keys = all.slice(cursor, cursor + count).map((key) => Buffer.from(key, 'latin1'));
    return { cursor: cursor + count < all.length ? cursor + count : 0, keys };
  }

  keys(): Iterable<Key> {
    throw new StepwellError('SW_UNSUPPORTED', 'no order');
  }

  count(): number {
    throw new StepwellError('SW_UNSUPPORTED', 'no order');
  }

  clear(): void {
    this.#called('clear');
    this.#values.clear();
  }

  stats(): StoreStats {
    this.#called('stats');
    const nothing = { roundTrips: 0, reads: 0, writes: 0, bytesRead: 0, bytesWritten: 0 };
    return {
      traffic: { ...nothing, compareAndSwaps: 0, fetchAndAdds: 0 },
      retries: {},
      resizes: { splits: 0, doublings: 0 },
      records: this.size,
      slots: 0,
      loadFactor: 0,
      globalDepth: 0,
      subtables: 0,
      memory: { records: 0, subtables: 0, directory: 0 },
    };
  }

  #called(method: string): void {
    this.calls[method] = (this.calls[method] ?? 0) + 1;
    const { failure } = this;
    this.failure = undefined;
    if (failure !== undefined) throw failure;
  }
}

/** One character is one byte, so that any byte string is a key. */
function name(key: Key): string {
  return Buffer.from(key as string).toString('latin1');
}

function copy(value: Value): Buffer {
  return Buffer.from(value as string);
}
