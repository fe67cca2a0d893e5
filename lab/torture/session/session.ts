import { hasCode, StepwellError } from '../../../src/errors.ts';
import { ROW } from '../expected-values.ts';
import { CommonKeys } from './common-keys.ts';
import { KINDS, type Kind, type Mix, OPERATIONS } from './operations.ts';
import { OwnedKeys } from './owned-keys.ts';
import { type Party, TestedStore, Violation } from './tested-store.ts';
import { WatchedKeys } from './watched-keys.ts';

/** One worker's random operations, each checked against the oracle. */
export class Session extends TestedStore {
  readonly owned: OwnedKeys;
  readonly watched: WatchedKeys;
  readonly common: CommonKeys;
  /** Each kind as often as its weight in the mix. */
  readonly #kinds: readonly Kind[];

  constructor(party: Party, mix: Mix, isOrdered = false) {
    super(party);
    this.owned = new OwnedKeys(party);
    this.watched = new WatchedKeys(party, isOrdered);
    this.common = new CommonKeys(party);
    this.#kinds = KINDS.flatMap((kind) => new Array<Kind>(mix[kind]).fill(kind));
  }

  /** One operation of a random kind, counted and checked. Throws a Violation. */
  step(): void {
    const kind = this.#kinds[this.random.below(this.#kinds.length)];
    const number = KINDS.indexOf(kind);
    this.oracle.setRow(this.row, ROW.doing, number + 1);
    try {
      const [, run] = OPERATIONS[kind];
      run(this);
    } catch (error) {
      const isStuck = hasCode(error, 'SW_CONTENTION') && this.oracle.fullAllowed;
      // A walk fails when a stopped worker holds the lock of its next leaf amid a change.
      if (!(isStuck && (kind === 'scan' || kind === 'entries'))) throw explain(error, kind);
    }
    this.oracle.setRow(this.row, ROW.doing, 0);
    this.oracle.addRow(this.row, ROW.kinds + number);
    this.oracle.addRow(this.row, ROW.heartbeat);
  }

  /** Finds out which of a dead worker's operations in flight took effect. */
  adopt(row: number): void {
    this.oracle.sums.abandon(row);
    for (const key of this.names.keys()) {
      if (this.oracle.owner(key) !== row) continue;
      this.owned.resolve(key);
      this.oracle.unlock(key);
    }
  }

  /** Checks every key while no client writes. */
  verifyAll(): void {
    for (const key of this.names.keys()) this.owned.check(key, 'final get');
    this.common.verifyAll();
    this.#verifyWalk();
  }

  /** A walk must find every key that must be present exactly once, and no other. */
  #verifyWalk(): void {
    const wanted = new Set([
      ...this.names.filter((_, key) => this.owned.isPresent(key)),
      ...this.common.commonNames.filter((name) => this.store.has(name)),
    ]);
    const { size } = wanted;
    for (const [name] of this.store) {
      if (!wanted.delete(name as string)) {
        throw new Violation(`the last walk met ${String(name).slice(0, 40)}, absent or met before`);
      }
    }
    if (wanted.size > 0) throw new Violation(`the last walk missed ${[...wanted].slice(0, 5)}`);
    if (this.store.size !== size) throw new Violation(`size is ${this.store.size}, not ${size}`);
  }

  /** Nothing is stuck: every key can still be written, read and removed. */
  exerciseAll(): void {
    for (const key of this.names.keys()) {
      this.oracle.tryLock(key, this.row);
      if (this.random.below(2) === 0) this.owned.delete(key);
      this.owned.set(key);
      this.owned.check(key, 'get after a final set');
      if (this.random.below(4) > 0) this.owned.delete(key);
      this.owned.check(key, 'get after a final delete');
      this.oracle.unlock(key);
    }
  }
}

function explain(error: unknown, kind: Kind): Error {
  if (error instanceof Violation) return error;
  const { message, stack } = error as Error;
  const code = error instanceof StepwellError ? `${error.code}: ` : '';
  return new Violation(`${kind} failed with ${code}${message}\n${stack}`);
}
