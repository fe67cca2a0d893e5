import { hasCode, StepwellError } from '../../src/errors.ts';
import type { Key, Store, Value } from '../../src/store/api.ts';
import type { Prng } from '../workloads/index.ts';
import { type ExpectedValues, ROW } from './expected-values.ts';
import { expected } from './expected-word.ts';
import {
  counterName,
  identify,
  makeValue,
  ownedName,
  registerName,
  sameValue,
  showValue,
  tokenName,
} from './values.ts';

/** Something that Stepwell must never do. */
export class Violation extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'Violation';
  }
}

export const KINDS = [
  'set',
  'insert',
  'update',
  'write',
  'delete',
  'take',
  'compareAndSet',
  'setMany',
  'deleteMany',
  'ownGet',
  'get',
  'getEntry',
  'has',
  'getMany',
  'read',
  'scan',
  'entries',
  'increment',
  'compareAndAdd',
  'insertToken',
  'removeToken',
  'writeRegister',
  'readRegister',
] as const;
export type Kind = (typeof KINDS)[number];
export type Mix = Readonly<Record<Kind, number>>;

export const REGISTERS = 4;
/** Tags of values, which for registers are the row of the writer. */
const REGISTER_KEYS = 1_000_000;
const TOKEN_KEYS = 2_000_000;
const LOCK_TRIES = 8;
const MANY_MAX = 40;

/** What a reader knows before it reads. */
interface Before {
  word: number;
  current: number;
}

const FULL = Symbol('the pool is full');

/** One worker's share of the torture: random operations, each checked against the oracle. */
export class Session {
  readonly #store: Store;
  readonly #oracle: ExpectedValues;
  readonly #row: number;
  readonly #random: Prng;
  readonly #names: string[];
  readonly #numbers = new Map<string, number>();
  readonly #table: Kind[] = [];
  /** Highest sum seen, by counter. */
  readonly #sums: number[];
  /** Highest write of each row seen in each register. */
  readonly #seen: number[][];

  /** Whether the store scans in the order of its keys. */
  readonly #ordered: boolean;

  constructor(
    store: Store,
    oracle: ExpectedValues,
    row: number,
    random: Prng,
    mix: Mix,
    ordered = false,
  ) {
    this.#store = store;
    this.#ordered = ordered;
    this.#oracle = oracle;
    this.#row = row;
    this.#random = random;
    const { keys, counters, rows } = oracle.shape;
    this.#names = Array.from({ length: keys }, (_, key) => ownedName(key));
    for (const [key, name] of this.#names.entries()) this.#numbers.set(name, key);
    for (const kind of KINDS) for (let i = 0; i < mix[kind]; i++) this.#table.push(kind);
    this.#sums = new Array(counters).fill(0);
    this.#seen = Array.from({ length: REGISTERS }, () => new Array(rows).fill(0));
  }

  /** One operation of a random kind, counted and checked. Throws a Violation. */
  step(): void {
    const kind = this.#table[this.#random.below(this.#table.length)];
    const number = KINDS.indexOf(kind);
    this.#oracle.setRow(this.#row, ROW.doing, number + 1);
    try {
      this.#actions[kind]();
    } catch (error) {
      const isStuck = hasCode(error, 'SW_CONTENTION') && this.#oracle.fullAllowed;
      // A walk whose next leaf a stopped worker has locked in the middle of a change is given up.
      if (!(isStuck && (kind === 'scan' || kind === 'entries'))) throw explain(error, kind);
    }
    this.#oracle.setRow(this.#row, ROW.doing, 0);
    this.#oracle.addRow(this.#row, ROW.kinds + number);
    this.#oracle.addRow(this.#row, ROW.heartbeat);
  }

  /** Decides the fate of what a dead worker of `row` had under way, by looking. */
  adopt(row: number): void {
    this.#oracle.sums.abandon(row);
    for (let key = 0; key < this.#names.length; key++) {
      if (this.#oracle.owner(key) !== row) continue;
      this.#resolve(key);
      this.#oracle.unlock(key);
    }
  }

  /** Checks every key when nobody writes. */
  verifyAll(): void {
    for (let key = 0; key < this.#names.length; key++) this.#exact(key, 'final get');
    const { counters, tokens } = this.#oracle.shape;
    for (let counter = 0; counter < counters; counter++) this.#verifyCounter(counter);
    for (let token = 0; token < tokens; token++) this.#verifyToken(token);
    for (let i = 0; i < REGISTERS; i++) this.#readRegister(i);
    this.#verifyWalk();
  }

  /** Nothing is stuck: every key can still be written, read and removed. */
  exerciseAll(): void {
    for (let key = 0; key < this.#names.length; key++) {
      this.#oracle.tryLock(key, this.#row);
      if (this.#random.below(2) === 0) this.#deleteKey(key);
      this.#setKey(key);
      this.#exact(key, 'get after a final set');
      if (this.#random.below(4) > 0) this.#deleteKey(key);
      this.#exact(key, 'get after a final delete');
      this.#oracle.unlock(key);
    }
  }

  /** What each kind of operation does. */
  readonly #actions: Readonly<Record<Kind, () => void>> = {
    set: () => this.#owned((key) => this.#setKey(key)),
    insert: () => this.#owned((key) => this.#insertKey(key)),
    update: () => this.#owned((key) => this.#updateKey(key)),
    write: () => this.#owned((key) => this.#writeKey(key)),
    delete: () => this.#owned((key) => this.#deleteKey(key)),
    take: () => this.#owned((key) => this.#takeKey(key)),
    compareAndSet: () => this.#owned((key) => this.#compareAndSetKey(key)),
    ownGet: () => this.#owned((key) => this.#exact(key, 'get by the owner')),
    setMany: () => this.#ownedMany((keys) => this.#setMany(keys)),
    deleteMany: () => this.#ownedMany((keys) => this.#deleteMany(keys)),
    get: () => this.#checked((key) => this.#store.get(this.#spell(key))),
    getEntry: () => this.#checked((key) => this.#store.getEntry(this.#spell(key))?.value),
    read: () => this.#checked((key) => this.#zeroCopy(key)),
    has: () => this.#has(),
    getMany: () => this.#getMany(),
    scan: () => this.#walk(true),
    entries: () => this.#walk(false),
    increment: () => this.#increment(),
    compareAndAdd: () => this.#compareAndAdd(),
    insertToken: () => this.#insertToken(),
    removeToken: () => this.#removeToken(),
    writeRegister: () => this.#writeRegister(),
    readRegister: () => this.#readRegister(this.#random.below(REGISTERS)),
  };

  // Keys in use: more and more of them, so that the table splits during the whole run.

  #anyKey(): number {
    const used = 32 + this.#oracle.row(this.#row, ROW.heartbeat) / 4;
    return this.#random.below(Math.min(this.#names.length, used));
  }

  /** The same key as a string or as bytes. */
  #spell(key: number): Key {
    const name = this.#names[key];
    return this.#random.below(4) === 0 ? Buffer.from(name) : name;
  }

  #lockAny(): number | undefined {
    for (let i = 0; i < LOCK_TRIES; i++) {
      const key = this.#anyKey();
      if (this.#oracle.tryLock(key, this.#row)) return key;
    }
    return undefined;
  }

  /** The key is given back only on success: after a failure its state is evidence. */
  #owned(act: (key: number) => void): void {
    const key = this.#lockAny();
    if (key === undefined) return;
    this.#oracle.setRow(this.#row, ROW.doingKey, key);
    act(key);
    this.#oracle.unlock(key);
  }

  #ownedMany(act: (keys: number[]) => void): void {
    const keys: number[] = [];
    for (let i = this.#random.below(MANY_MAX); i >= 0; i--) {
      const key = this.#lockAny();
      if (key !== undefined) keys.push(key);
    }
    act(keys);
    for (const key of keys) this.#oracle.unlock(key);
  }

  /**
   * A full pool must leave things as they were, and may happen only while a worker is stopped. So
   * may a lock that is stuck.
   */
  #unlessFull<T>(act: () => T): T | typeof FULL {
    const allowed = this.#oracle.fullAllowed;
    try {
      return act();
    } catch (error) {
      const isStuck = hasCode(error, 'SW_CONTENTION');
      if (isStuck && (allowed || this.#oracle.fullAllowed)) return FULL;
      if (!hasCode(error, 'SW_POOL_FULL')) throw error;
      this.#oracle.addRow(this.#row, ROW.poolFull);
      if (allowed || this.#oracle.fullAllowed) return FULL;
      throw new Violation(`the pool is full although nobody holds back re-use: ${error.message}`);
    }
  }

  // Operations of the owner of a key, which knows exactly what they must answer.

  #present(key: number): boolean {
    return !expected.isDeleted(this.#oracle.word(key));
  }

  #currentValue(key: number): Value | undefined {
    const word = this.#oracle.word(key);
    if (expected.isDeleted(word)) return undefined;
    return makeValue({ key, attempt: this.#oracle.current(key), tag: expected.base(word) });
  }

  #exact(key: number, what: string): void {
    this.#same(key, this.#store.get(this.#spell(key)), this.#currentValue(key), what);
  }

  #same(key: number, got: Value | undefined, wanted: Value | undefined, what: string): void {
    const equal =
      got === undefined || wanted === undefined ? got === wanted : sameValue(got, wanted);
    if (!equal) this.#fail(key, `${what} got ${showValue(got)}, not ${showValue(wanted)}`);
  }

  #fail(key: number, text: string): never {
    const state = this.#oracle.describe(key);
    throw new Violation(`key ${key} (${state}): ${text}; ${this.#lookAgain(key)}`);
  }

  /** Tells a passing fault from a lasting one. */
  #lookAgain(key: number): string {
    try {
      const again = showValue(this.#store.get(this.#names[key]));
      const walked = [...this.#store.keys()].filter((name) => name === this.#names[key]).length;
      return `a second get got ${again}, a second walk met it ${walked} times`;
    } catch (error) {
      return `a second look failed: ${(error as Error).message}`;
    }
  }

  /** Runs one write whose outcome is `did`; the oracle says beforehand what it must be. */
  #change(key: number, must: boolean, did: (value: Value) => boolean): void {
    const { attempt, base } = this.#oracle.beginWrite(key);
    const value = makeValue({ key, attempt, tag: base });
    const outcome = this.#unlessFull(() => did(value));
    if (outcome === FULL) {
      this.#oracle.rollBack(key);
      this.#exact(key, 'get after a write that found the pool full');
      return;
    }
    if (outcome !== must) this.#fail(key, `a write answered ${outcome}`);
    if (outcome) this.#oracle.commitWrite(key);
    else this.#oracle.rollBack(key);
    if (this.#random.below(4) === 0) this.#exact(key, 'get after a write');
  }

  #setKey(key: number): void {
    this.#change(key, true, (value) => {
      this.#store.set(this.#spell(key), value);
      return true;
    });
  }

  #insertKey(key: number): void {
    this.#change(key, !this.#present(key), (value) => this.#store.insert(this.#spell(key), value));
  }

  #updateKey(key: number): void {
    this.#change(key, this.#present(key), (value) => this.#store.update(this.#spell(key), value));
  }

  #writeKey(key: number): void {
    const old = this.#currentValue(key);
    const when = (['always', 'absent', 'present'] as const)[this.#random.below(3)];
    const must = when === 'always' || (when === 'present') === (old !== undefined);
    this.#change(key, must, (value) => {
      const result = this.#store.write(this.#spell(key), value, { when, previous: true });
      this.#same(key, result.previous, old, `write when ${when}: the previous value`);
      return result.written;
    });
  }

  #compareAndSetKey(key: number): void {
    const entry = this.#store.getEntry(this.#spell(key));
    this.#same(key, entry?.value, this.#currentValue(key), 'getEntry by the owner');
    const right = this.#random.below(3) > 0;
    const version = ((entry?.version ?? 0) + (right ? 0 : 1)) >>> 0;
    this.#change(key, right && entry !== undefined, (value) => {
      const stored = this.#store.compareAndSet(this.#spell(key), version, value);
      if (stored === undefined) return false;
      const now = this.#store.getEntry(this.#spell(key))?.version;
      if (stored === version || now !== stored) {
        this.#fail(key, `compareAndSet of version ${version} answered ${stored}, now ${now}`);
      }
      return true;
    });
  }

  #deleteKey(key: number): void {
    const must = this.#present(key);
    if (must) this.#oracle.beginDelete(key);
    // An index that appends may need memory for a deletion too.
    const removed = this.#unlessFull(() => this.#store.delete(this.#spell(key)));
    if (removed === FULL) {
      if (must) this.#resolve(key);
      return;
    }
    if (removed !== must) this.#fail(key, `delete answered ${removed}`);
    if (must) this.#oracle.commitDelete(key);
    if (this.#random.below(4) === 0) this.#exact(key, 'get after a delete');
  }

  #takeKey(key: number): void {
    const old = this.#currentValue(key);
    if (old !== undefined) this.#oracle.beginDelete(key);
    const taken = this.#unlessFull(() => this.#store.take(this.#spell(key)));
    if (taken === FULL) {
      if (old !== undefined) this.#resolve(key);
      return;
    }
    this.#same(key, taken, old, 'take');
    if (old !== undefined) this.#oracle.commitDelete(key);
    if (this.#random.below(4) === 0) this.#exact(key, 'get after a take');
  }

  #setMany(keys: number[]): void {
    const entries = keys.map((key) => {
      const { attempt, base } = this.#oracle.beginWrite(key);
      return [this.#spell(key), makeValue({ key, attempt, tag: base })] as const;
    });
    const outcome = this.#unlessFull(() => this.#store.setMany(entries));
    for (const key of keys) {
      if (outcome === FULL) this.#resolve(key);
      else this.#oracle.commitWrite(key);
    }
    for (const key of keys) if (this.#random.below(8) === 0) this.#exact(key, 'get after setMany');
  }

  #deleteMany(keys: number[]): void {
    const present = keys.filter((key) => this.#present(key));
    for (const key of present) this.#oracle.beginDelete(key);
    const spelled = keys.map((key) => this.#spell(key));
    const removed = this.#unlessFull(() => this.#store.deleteMany(spelled));
    if (removed === FULL) {
      for (const key of present) this.#resolve(key);
      return;
    }
    if (removed !== present.length) {
      throw new Violation(`deleteMany removed ${removed} of ${present.length} present keys`);
    }
    for (const key of present) this.#oracle.commitDelete(key);
  }

  /** An operation on the key may or may not have taken place: sees which, and notes it. */
  #resolve(key: number): void {
    const word = this.#oracle.word(key);
    const got = this.#store.get(this.#spell(key));
    const old = this.#currentValue(key);
    const isOld = got === undefined || old === undefined ? got === old : sameValue(got, old);
    if (this.#isPendingWrite(key, word, got)) {
      this.#oracle.commitWrite(key);
    } else if (expected.isDeletePending(word) && got === undefined) {
      this.#oracle.commitDelete(key);
    } else if (isOld) {
      this.#oracle.rollBack(key);
    } else {
      this.#fail(key, `after an interrupted operation: ${showValue(got)}`);
    }
  }

  #isPendingWrite(key: number, word: number, got: Value | undefined): boolean {
    if (!expected.isWritePending(word) || got === undefined) return false;
    const attempt = this.#oracle.attempts(key);
    return sameValue(got, makeValue({ key, attempt, tag: expected.nextBase(word) }));
  }

  // Operations of readers, which accept anything between what was before and after.

  #before(key: number): Before {
    return { word: this.#oracle.word(key), current: this.#oracle.current(key) };
  }

  #checked(read: (key: number) => Value | undefined): void {
    const key = this.#anyKey();
    const before = this.#before(key);
    this.#checkRead(key, before, read(key), 'a read');
  }

  #checkRead(key: number, before: Before, got: Value | undefined, what: string): void {
    this.#checkPresence(key, before, got !== undefined, what);
    if (got !== undefined) this.#checkContent(key, before, got, what);
  }

  #checkPresence(key: number, before: Before, present: boolean, what: string): void {
    const after = this.#oracle.word(key);
    const samples = `(${before.word.toString(16)} .. ${after.toString(16)})`;
    if (present && expected.mustNotExist(before.word, after)) {
      this.#fail(key, `${what} found it though it is deleted ${samples}`);
    }
    if (!present && expected.mustExist(before.word, after)) {
      this.#fail(key, `${what} did not find it ${samples}`);
    }
  }

  #checkContent(key: number, before: Before, got: Value, what: string): void {
    const identity = identify(got);
    const last = this.#oracle.attempts(key);
    const fits =
      identity !== undefined &&
      identity.key === key &&
      identity.attempt >= before.current &&
      identity.attempt <= last &&
      expected.mayHaveBase(identity.tag, before.word, this.#oracle.word(key));
    if (!fits) {
      this.#fail(key, `${what} got ${showValue(got)}, not a write of ${before.current}..${last}`);
    }
  }

  #zeroCopy(key: number): Value | undefined {
    const wanted = this.#names[key];
    return this.#store.read(this.#spell(key), (bytes) => {
      const first = bytes.slice();
      // The bytes stay as they are until we return, also when the value is replaced meanwhile.
      for (let i = this.#random.below(3); i > 0; i--) this.#store.get(this.#spell(this.#anyKey()));
      if (!sameValue(first, bytes)) this.#fail(key, `the bytes of ${wanted} changed during a read`);
      const text = Buffer.from(first).toString('utf8');
      return /^\d+:\d+:\d+:/.test(text) ? text : first;
    });
  }

  #has(): void {
    const key = this.#anyKey();
    const before = this.#before(key);
    this.#checkPresence(key, before, this.#store.has(this.#spell(key)), 'has');
  }

  #getMany(): void {
    const keys = Array.from({ length: 1 + this.#random.below(MANY_MAX) }, () => this.#anyKey());
    const before = keys.map((key) => this.#before(key));
    const values = this.#store.getMany(keys.map((key) => this.#spell(key)));
    keys.forEach((key, i) => {
      this.#checkRead(key, before[i], values[i], 'getMany');
    });
  }

  /** A walk finds every key that is present all the time, and none that is absent all the time. */
  #walk(byPages: boolean): void {
    const before = this.#names.map((_, key) => this.#before(key));
    const found = new Uint32Array(this.#names.length);
    for (const [name, value] of byPages ? this.#pages() : this.#entries()) {
      const key = this.#numbers.get(name as string);
      if (key === undefined) continue;
      if (found[key]++ === 1) this.#oracle.addRow(this.#row, ROW.repeated);
      this.#checkContent(key, before[key], value, byPages ? 'scan' : 'entries');
    }
    for (let key = 0; key < found.length; key++) {
      this.#checkPresence(key, before[key], found[key] > 0, byPages ? 'scan' : 'entries');
    }
  }

  #entries(): Iterable<[Key, Value]> {
    return this.#ordered ? this.#inOrder(this.#random.below(2) === 1) : this.#store.entries();
  }

  /** A scan hands out each key once, and in order. */
  *#inOrder(reverse: boolean): Iterable<[Key, Value]> {
    let last: Key | undefined;
    for (const [name, value] of this.#store.scan({ reverse })) {
      if (last !== undefined && (reverse ? name >= last : name <= last)) {
        throw new Violation(`a scan hands out ${name} after ${last}`);
      }
      last = name;
      yield [name, value];
      this.#oracle.addRow(this.#row, ROW.heartbeat);
    }
  }

  *#pages(): Iterable<[Key, Value]> {
    let cursor = 0;
    do {
      const page = this.#store.scanPage(cursor, 1 + this.#random.below(100));
      for (const { key, value } of page.entries) yield [key, value];
      cursor = page.cursor;
      this.#oracle.addRow(this.#row, ROW.heartbeat);
    } while (cursor !== 0);
  }

  // Keys that nobody owns.

  #increment(): void {
    const counter = this.#random.below(this.#oracle.shape.counters);
    // Odd counters are added to by compareAndSet.
    if (counter % 2 === 1) {
      this.#compareAndAdd();
      return;
    }
    const by = 1 + this.#random.below(9);
    this.#oracle.sums.begin(this.#row, counter, by);
    const sum = this.#unlessFull(() => this.#store.increment(counterName(counter), by));
    this.#oracle.sums.end(this.#row, counter, sum !== FULL);
    if (sum !== FULL) this.#checkSum(counter, sum, by);
  }

  /** Sums only grow: a repeated one means that an addition was lost. */
  #checkSum(counter: number, sum: number, by: number): void {
    const least = Math.max(
      this.#sums[counter] + by,
      this.#oracle.sums.acknowledged(this.#row, counter),
    );
    if (sum < least) {
      throw new Violation(`counter ${counter} is ${sum} after adding ${by}; at least ${least}`);
    }
    this.#sums[counter] = sum;
  }

  #compareAndAdd(): void {
    const { counters } = this.#oracle.shape;
    const counter = this.#random.below(counters) | 1;
    if (counter >= counters) return;
    const name = counterName(counter);
    const by = 1 + this.#random.below(9);
    const entry = this.#store.getEntry(name);
    const sum = Number(entry?.value ?? 0) + by;
    if (sum - by < this.#sums[counter]) {
      throw new Violation(`counter ${counter} fell from ${this.#sums[counter]} to ${sum - by}`);
    }
    this.#oracle.sums.begin(this.#row, counter, by);
    const done = this.#unlessFull(() =>
      entry === undefined
        ? this.#store.insert(name, String(sum))
        : this.#store.compareAndSet(name, entry.version, String(sum)) !== undefined,
    );
    this.#oracle.sums.end(this.#row, counter, done === true);
    if (done === true) this.#checkSum(counter, sum, by);
  }

  /** Of all inserts and removals of a token those that were acknowledged must take turns. */
  #insertToken(): void {
    const { counters, tokens } = this.#oracle.shape;
    const token = this.#random.below(tokens);
    const sum = counters + token;
    const value = makeValue({
      key: TOKEN_KEYS + token,
      attempt: this.#random.next32() >>> 1,
      tag: 0,
    });
    this.#oracle.sums.begin(this.#row, sum, 1);
    const inserted = this.#unlessFull(() => this.#store.insert(tokenName(token), value));
    this.#oracle.sums.end(this.#row, sum, inserted === true);
  }

  #removeToken(): void {
    const { counters, tokens } = this.#oracle.shape;
    const token = this.#random.below(tokens);
    const sum = counters + token;
    this.#oracle.sums.begin(this.#row, sum, -1);
    const how = this.#random.below(3);
    if (how < 2) {
      const name = tokenName(token);
      const deleted = this.#unlessFull(() =>
        how === 0 ? this.#store.delete(name) : this.#deleteAsSeen(name),
      );
      this.#oracle.sums.end(this.#row, sum, deleted === true);
      return;
    }
    const value = this.#unlessFull(() => this.#store.take(tokenName(token)));
    this.#oracle.sums.end(this.#row, sum, value !== undefined && value !== FULL);
    if (value !== FULL && value !== undefined && identify(value)?.key !== TOKEN_KEYS + token) {
      throw new Violation(`take of token ${token} got ${showValue(value)}`);
    }
  }

  #deleteAsSeen(name: string): boolean {
    const entry = this.#store.getEntry(name);
    return entry !== undefined && this.#store.compareAndDelete(name, entry.version);
  }

  #writeRegister(): void {
    const register = this.#random.below(REGISTERS);
    const attempt = this.#oracle.addRow(this.#row, ROW.sequence);
    const value = makeValue({ key: REGISTER_KEYS + register, attempt, tag: this.#row });
    const name = registerName(register);
    const outcome = this.#unlessFull(() => this.#store.set(name, value));
    if (outcome !== FULL) this.#seen[register][this.#row] = attempt;
    if (this.#random.below(2) === 0) this.#readRegister(register);
  }

  /** After a write of a row no earlier write of that row may be read any more. */
  #readRegister(register: number): void {
    const seen = this.#seen[register];
    const value = this.#store.get(registerName(register));
    if (value === undefined) {
      if (seen.some((attempt) => attempt > 0)) throw new Violation(`register ${register} is gone`);
      return;
    }
    const identity = identify(value);
    const fits =
      identity !== undefined &&
      identity.key === REGISTER_KEYS + register &&
      identity.tag < seen.length &&
      identity.attempt >= seen[identity.tag] &&
      identity.attempt <= this.#oracle.row(identity.tag, ROW.sequence);
    if (!fits) {
      throw new Violation(`register ${register} holds ${showValue(value)} after ${seen.join()}`);
    }
    seen[identity.tag] = identity.attempt;
  }

  // The end of a run.

  #verifyCounter(counter: number): void {
    const { low, high } = this.#oracle.sums.bounds(counter);
    const sum = Number(this.#store.get(counterName(counter)) ?? 0);
    if (sum < low || sum > high) {
      throw new Violation(`counter ${counter} is ${sum}; acknowledged ${low}, at most ${high}`);
    }
  }

  #verifyToken(token: number): void {
    const { low, high } = this.#oracle.sums.bounds(this.#oracle.shape.counters + token);
    const present = this.#store.has(tokenName(token)) ? 1 : 0;
    if (present < low || present > high) {
      throw new Violation(`token ${token}: present ${present}; acknowledged ${low}..${high}`);
    }
  }

  /** Exactly the keys that must be there, each once. */
  #verifyWalk(): void {
    const wanted = new Set(this.#names.filter((_, key) => this.#present(key)));
    const { counters, tokens } = this.#oracle.shape;
    const free = [
      ...Array.from({ length: counters }, (_, i) => counterName(i)),
      ...Array.from({ length: tokens }, (_, i) => tokenName(i)),
      ...Array.from({ length: REGISTERS }, (_, i) => registerName(i)),
    ];
    for (const name of free) if (this.#store.has(name)) wanted.add(name);
    const size = wanted.size;
    for (const [name] of this.#store) {
      if (!wanted.delete(name as string)) {
        throw new Violation(`the last walk met ${String(name).slice(0, 40)}, absent or met before`);
      }
    }
    if (wanted.size > 0) throw new Violation(`the last walk missed ${[...wanted].slice(0, 5)}`);
    if (this.#store.size !== size) throw new Violation(`size is ${this.#store.size}, not ${size}`);
  }
}

function explain(error: unknown, kind: Kind): Error {
  if (error instanceof Violation) return error;
  const { message, stack } = error as Error;
  const code = error instanceof StepwellError ? `${error.code}: ` : '';
  return new Violation(`${kind} failed with ${code}${message}\n${stack}`);
}
