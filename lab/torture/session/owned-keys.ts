import type { Key, Value } from '../../../src/store/api.ts';
import { ROW } from '../expected-values.ts';
import { expected } from '../expected-word.ts';
import { makeValue, sameValue, showValue } from '../values.ts';
import { FULL, TestedStore, Violation } from './tested-store.ts';

const LOCK_TRIES = 8;
const MANY_MAX = 40;

/** Operations on keys that the worker owns, so that it knows exactly what they must return. */
export class OwnedKeys extends TestedStore {
  /** Locks a free key, if any, against writes by other workers, and runs `act` on it. */
  withOne(act: (key: number) => void): void {
    const key = this.#lockAny();
    if (key === undefined) return;
    this.oracle.setRow(this.row, ROW.doingKey, key);
    act(key);
    // Only on success: after a failure the key's state is evidence.
    this.oracle.unlock(key);
  }

  withMany(act: (keys: number[]) => void): void {
    const keys: number[] = [];
    for (let i = this.random.below(MANY_MAX); i >= 0; i--) {
      const key = this.#lockAny();
      if (key !== undefined) keys.push(key);
    }
    act(keys);
    for (const key of keys) this.oracle.unlock(key);
  }

  #lockAny(): number | undefined {
    for (let i = 0; i < LOCK_TRIES; i++) {
      const key = this.anyKey();
      if (this.oracle.tryLock(key, this.row)) return key;
    }
    return undefined;
  }

  isPresent(key: number): boolean {
    return !expected.isDeleted(this.oracle.word(key));
  }

  check(key: number, what: string): void {
    this.#same(key, this.store.get(this.spell(key)), this.#value(key), what);
  }

  set(key: number): void {
    this.#write(key, true, (name, value) => {
      this.store.set(name, value);
      return true;
    });
  }

  insert(key: number): void {
    const must = !this.isPresent(key);
    this.#write(key, must, (name, value) => this.store.insert(name, value));
  }

  update(key: number): void {
    const must = this.isPresent(key);
    this.#write(key, must, (name, value) => this.store.update(name, value));
  }

  writeWhen(key: number): void {
    const old = this.#value(key);
    const when = (['always', 'absent', 'present'] as const)[this.random.below(3)];
    const must = when === 'always' || (when === 'present') === (old !== undefined);
    this.#write(key, must, (name, value) => {
      const { previous, written } = this.store.write(name, value, { when, previous: true });
      this.#same(key, previous, old, `write when ${when}: the previous value`);
      return written;
    });
  }

  compareAndSet(key: number): void {
    const entry = this.store.getEntry(this.spell(key));
    this.#same(key, entry?.value, this.#value(key), 'getEntry by the owner');
    const right = this.random.below(3) > 0;
    const version = ((entry?.version ?? 0) + (right ? 0 : 1)) >>> 0;
    this.#write(key, right && entry !== undefined, (name, value) => {
      const stored = this.store.compareAndSet(name, version, value);
      if (stored === undefined) return false;
      const now = this.store.getEntry(this.spell(key))?.version;
      if (stored !== version && now === stored) return true;
      this.fail(key, `compareAndSet of version ${version} answered ${stored}, now ${now}`);
    });
  }

  delete(key: number): void {
    this.#remove(key, (name, old) => {
      const removed = this.store.delete(name);
      if (removed !== (old !== undefined)) this.fail(key, `delete answered ${removed}`);
    });
  }

  take(key: number): void {
    this.#remove(key, (name, old) => {
      this.#same(key, this.store.take(name), old, 'take');
    });
  }

  setMany(keys: number[]): void {
    const entries = keys.map((key) => [this.spell(key), this.#beginWrite(key)] as const);
    const outcome = this.unlessFull(() => this.store.setMany(entries));
    for (const key of keys) {
      if (outcome === FULL) this.resolve(key);
      else this.oracle.commitWrite(key);
    }
    for (const key of keys) if (this.random.below(8) === 0) this.check(key, 'get after setMany');
  }

  deleteMany(keys: number[]): void {
    const present = keys.filter((key) => this.isPresent(key));
    for (const key of present) this.oracle.beginDelete(key);
    const spelled = keys.map((key) => this.spell(key));
    const removed = this.unlessFull(() => this.store.deleteMany(spelled));
    if (removed !== FULL && removed !== present.length) {
      throw new Violation(`deleteMany removed ${removed} of ${present.length} present keys`);
    }
    for (const key of present) {
      if (removed === FULL) this.resolve(key);
      else this.oracle.commitDelete(key);
    }
  }

  /** Finds out whether an interrupted operation on the key took effect, and records it. */
  resolve(key: number): void {
    const word = this.oracle.word(key);
    const got = this.store.get(this.spell(key));
    const written = { key, attempt: this.oracle.attempts(key), tag: expected.nextBase(word) };
    if (expected.isWritePending(word) && sameValue(got, makeValue(written))) {
      this.oracle.commitWrite(key);
    } else if (expected.isDeletePending(word) && got === undefined) {
      this.oracle.commitDelete(key);
    } else if (sameValue(got, this.#value(key))) {
      this.oracle.rollBack(key);
    } else {
      this.fail(key, `after an interrupted operation: ${showValue(got)}`);
    }
  }

  #value(key: number): Value | undefined {
    const tag = expected.base(this.oracle.word(key));
    const attempt = this.oracle.current(key);
    return this.isPresent(key) ? makeValue({ key, attempt, tag }) : undefined;
  }

  #same(key: number, got: Value | undefined, wanted: Value | undefined, what: string): void {
    if (sameValue(got, wanted)) return;
    this.fail(key, `${what} got ${showValue(got)}, not ${showValue(wanted)}`);
  }

  #beginWrite(key: number): Value {
    const { attempt, base } = this.oracle.beginWrite(key);
    return makeValue({ key, attempt, tag: base });
  }

  /** One write. `act` returns whether it has written, which must equal `must`. */
  #write(key: number, must: boolean, act: (name: Key, value: Value) => boolean): void {
    const value = this.#beginWrite(key);
    const written = this.unlessFull(() => act(this.spell(key), value));
    if (written === true) this.oracle.commitWrite(key);
    else this.oracle.rollBack(key);
    if (written !== FULL && written !== must) this.fail(key, `a write answered ${written}`);
    if (written === FULL) this.check(key, 'get after a write that found the pool full');
    else if (this.random.below(4) === 0) this.check(key, 'get after a write');
  }

  /** One removal. `act` checks the result itself. */
  #remove(key: number, act: (name: Key, old: Value | undefined) => void): void {
    const old = this.#value(key);
    if (old !== undefined) this.oracle.beginDelete(key);
    // A log-structured index may need memory even to delete.
    const isFull = this.unlessFull(() => act(this.spell(key), old)) === FULL;
    if (old !== undefined) {
      if (isFull) this.resolve(key);
      else this.oracle.commitDelete(key);
    }
    if (!isFull && this.random.below(4) === 0) this.check(key, 'get after a deletion');
  }
}
