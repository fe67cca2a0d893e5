import type { Key, Value } from '../../../src/store/api.ts';
import { ROW } from '../expected-values.ts';
import { expected } from '../expected-word.ts';
import { identify, sameValue, showValue } from '../values.ts';
import { type Party, TestedStore, Violation } from './tested-store.ts';

const MANY_MAX = 40;

/** The oracle's state of a key before a read. */
interface Before {
  word: number;
  current: number;
}

/**
 * Checks reads of keys that other clients write. An answer is right if the key may have had that
 * value at some time between the beginning and the end of the read.
 */
export class WatchedKeys extends TestedStore {
  readonly #numbers: ReadonlyMap<Key, number> = new Map(this.names.map((name, key) => [name, key]));
  /** Whether the store's scans are in key order. */
  readonly #isOrdered: boolean;

  constructor(party: Party, isOrdered: boolean) {
    super(party);
    this.#isOrdered = isOrdered;
  }

  check(read: (key: number) => Value | undefined): void {
    const key = this.anyKey();
    const before = this.#before(key);
    this.#checkRead(key, before, read(key), 'a read');
  }

  has(): void {
    const key = this.anyKey();
    const before = this.#before(key);
    this.#checkPresence(key, before, this.store.has(this.spell(key)), 'has');
  }

  getMany(): void {
    const keys = Array.from({ length: 1 + this.random.below(MANY_MAX) }, () => this.anyKey());
    const before = keys.map((key) => this.#before(key));
    const values = this.store.getMany(keys.map((key) => this.spell(key)));
    keys.forEach((key, i) => {
      this.#checkRead(key, before[i], values[i], 'getMany');
    });
  }

  get(key: number): Value | undefined {
    return this.store.get(this.spell(key));
  }

  getEntry(key: number): Value | undefined {
    return this.store.getEntry(this.spell(key))?.value;
  }

  zeroCopy(key: number): Value | undefined {
    return this.store.read(this.spell(key), (bytes) => {
      const first = bytes.slice();
      // The bytes must not change until we return, even if another client replaces the value.
      for (let i = this.random.below(3); i > 0; i--) this.get(this.anyKey());
      if (!sameValue(first, bytes)) this.fail(key, 'the bytes changed during a read');
      const text = Buffer.from(first).toString('utf8');
      return /^\d+:\d+:\d+:/.test(text) ? text : first;
    });
  }

  /** A walk must find every key that is present throughout, and none that is absent throughout. */
  walk(what: 'scan' | 'entries'): void {
    const before = this.names.map((_, key) => this.#before(key));
    const found = new Uint32Array(this.names.length);
    for (const [name, value] of what === 'scan' ? this.#pages() : this.#entries()) {
      const key = this.#numbers.get(name);
      if (key === undefined) continue;
      if (found[key]++ === 1) this.oracle.addRow(this.row, ROW.repeated);
      this.#checkContent(key, before[key], value, what);
    }
    found.forEach((count, key) => {
      this.#checkPresence(key, before[key], count > 0, what);
    });
  }

  *#pages(): Iterable<[Key, Value]> {
    let cursor = 0;
    do {
      const page = this.store.scanPage(cursor, 1 + this.random.below(100));
      for (const { key, value } of page.entries) yield [key, value];
      cursor = page.cursor;
      this.oracle.addRow(this.row, ROW.heartbeat);
    } while (cursor !== 0);
  }

  #entries(): Iterable<[Key, Value]> {
    return this.#isOrdered ? this.#inOrder(this.random.below(2) === 1) : this.store.entries();
  }

  /** A scan must return each key once, in order. */
  *#inOrder(reverse: boolean): Iterable<[Key, Value]> {
    let last: Key | undefined;
    for (const [name, value] of this.store.scan({ reverse })) {
      if (last !== undefined && (reverse ? name >= last : name <= last)) {
        throw new Violation(`a scan hands out ${name} after ${last}`);
      }
      last = name;
      yield [name, value];
      this.oracle.addRow(this.row, ROW.heartbeat);
    }
  }

  #before(key: number): Before {
    return { word: this.oracle.word(key), current: this.oracle.current(key) };
  }

  #checkRead(key: number, before: Before, got: Value | undefined, what: string): void {
    this.#checkPresence(key, before, got !== undefined, what);
    if (got !== undefined) this.#checkContent(key, before, got, what);
  }

  #checkPresence(key: number, { word }: Before, present: boolean, what: string): void {
    const after = this.oracle.word(key);
    const isRight = !(present ? expected.mustNotExist : expected.mustExist)(word, after);
    if (isRight) return;
    const did = present ? 'found it though it is deleted' : 'did not find it';
    this.fail(key, `${what} ${did} (${word.toString(16)} .. ${after.toString(16)})`);
  }

  #checkContent(key: number, { word, current }: Before, got: Value, what: string): void {
    const identity = identify(got);
    const last = this.oracle.attempts(key);
    const isRight =
      identity !== undefined &&
      identity.key === key &&
      identity.attempt >= current &&
      identity.attempt <= last &&
      expected.mayHaveBase(identity.tag, word, this.oracle.word(key));
    if (isRight) return;
    this.fail(key, `${what} got ${showValue(got)}, not a write of ${current}..${last}`);
  }
}
