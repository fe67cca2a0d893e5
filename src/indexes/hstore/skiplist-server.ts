import { invariant } from '../../errors.ts';
import { control } from '../../pool/control.ts';
import { Prng } from '../../random/prng.ts';
import type { Address, Operation } from '../../verbs/index.ts';
import { holding, tryHolding } from './holding.ts';
import { readKeys } from './key-reader.ts';
import { LOG_DELETE, LOG_INSERT, type LogEntry } from './log.ts';
import { LogReader } from './log-reader.ts';
import type { Pair } from './pair.ts';
import { Skiplist, type SkiplistNode } from './skiplist.ts';
import { isEmpty } from './slot.ts';
import { readState } from './state.ts';
import type { NamedSlot } from './table-walk.ts';
import { Waiting } from './waiting.ts';

/** Attempts to follow a log that is overwritten as it is read, before writes are held. */
const FUZZY_ATTEMPTS = 2;
const ATTEMPTS_MAX = 1000;

/** What the entries of a slot come to, one after the other. */
interface Folded extends NamedSlot {
  /** Whether the slot has lost the key that it had before, if it had one. */
  rekeyed: boolean;
}

/** Where the slots of the pair's table come from when the skiplist has to be built. */
export type TableWalk = (visit: (slot: NamedSlot) => void) => Operation<void>;

/**
 * The skiplist server of a pair: a state machine that follows the log. It holds the keys in order
 * and for each the slot that has it and the record that the slot names, as of sequence `applied`;
 * `catchUp` takes it to a sequence that has everything that anybody can have seen.
 *
 * Its state is its own memory: it is lost with its process, and built anew from the hash table and
 * the records in the pool (section 3.2), while writes go on or, when they are too many, are held.
 */
export class SkiplistServer {
  readonly #pair: Pair;
  readonly #walkTable: TableWalk;
  readonly log: LogReader;
  readonly #seed: number;
  readonly #partitionCount: number;
  #partitions: Skiplist[] = [];
  #bySlot = new Map<Address, SkiplistNode>();
  /** Everything up to here is in the skiplist; -1 before it was built. */
  applied = -1;
  rebuilds = 0;

  constructor(pair: Pair, partitions: number, seed: number, walkTable: TableWalk) {
    this.#pair = pair;
    this.#partitionCount = partitions;
    this.#seed = seed;
    this.#walkTable = walkTable;
    this.log = new LogReader(pair.geometry);
  }

  get partitions(): readonly Skiplist[] {
    return this.#partitions;
  }

  get size(): number {
    return this.#bySlot.size;
  }

  /** The skiplist is lost, as with its process. */
  forget(): void {
    this.applied = -1;
    this.#partitions = [];
    this.#bySlot = new Map();
  }

  /**
   * Applies what the log has. Afterwards all is in the skiplist that any GET or SCAN can have
   * seen before the call (`begun`), and nothing that a GET would not see after it (`committed`).
   */
  *catchUp(): Operation<void> {
    const target = yield* this.settled();
    for (let attempt = 1; this.applied < target; attempt++) {
      const from = this.applied;
      const entries = from < 0 ? undefined : yield* this.log.read(from, target);
      if (entries === undefined) yield* this.#rebuild(attempt > FUZZY_ATTEMPTS);
      else yield* this.#apply(from, target, fold(entries, from));
      invariant(attempt < ATTEMPTS_MAX, 'a skiplist never catches up');
    }
  }

  /** A committed sequence that is no less than what had begun when it was called. */
  *settled(): Operation<number> {
    const pair = this.#pair;
    const { begun } = yield* this.log.progress();
    const waiting = new Waiting(pair.hashLease, pair.patience, 'it does not complete its turn');
    for (;;) {
      const state = yield* readState(pair);
      if (state.committed >= begun) return state.committed;
      // The hash server is at it, or it died: then its turn is completed here.
      yield* waiting.poll(state.holder, state.progress);
      const isTime = state.holder.client === 0 || waiting.isTime;
      if (isTime && (yield* tryHolding(pair, nothingMore))) continue;
      yield* control.pause(waiting.pause);
    }
  }

  /**
   * From the table: what a walk over it meets, and then what the log says has changed since before
   * the walk. When the log is overwritten meanwhile again and again, writes are held.
   */
  *#rebuild(holdsWrites: boolean): Operation<void> {
    this.rebuilds++;
    const slots = new Map<Address, Folded>();
    const visit = ({ slot, low, high }: NamedSlot) => {
      slots.set(slot, { slot, low, high, rekeyed: true });
    };
    const target = holdsWrites
      ? yield* this.#walkHolding(visit)
      : yield* this.#walkFollowing(visit, slots);
    if (target === undefined) return;
    this.forget();
    const fresh = Array.from({ length: this.#partitionCount }, (_, i) => {
      return new Skiplist(Prng.fromSeed(this.#seed).fork(i));
    });
    this.#partitions = fresh;
    yield* this.#apply(-1, target, [...slots.values()]);
  }

  /** Reads the table while writes go on; undefined when the log did not last for what they did. */
  *#walkFollowing(
    visit: (slot: NamedSlot) => void,
    slots: Map<Address, Folded>,
  ): Operation<number | undefined> {
    const from = yield* this.settled();
    yield* this.#walkTable(visit);
    const target = yield* this.settled();
    const entries = yield* this.log.read(from, target);
    if (entries === undefined) return undefined;
    for (const folded of fold(entries, from)) slots.set(folded.slot, { ...folded, rekeyed: true });
    return target;
  }

  /** Reads the table as the holder of the lease, under which nobody writes. */
  #walkHolding(visit: (slot: NamedSlot) => void): Operation<number> {
    const { log } = this;
    const walkTable = this.#walkTable;
    return holding(this.#pair, 'writes cannot be held to build the skiplist', function* () {
      const { committed } = yield* log.progress();
      yield* walkTable(visit);
      return committed;
    });
  }

  /**
   * Takes the skiplist from one sequence to a later one. Keys are read first. Their records are
   * there, because each is the last of its slot up to a sequence that was committed after this
   * operation began. Then all happens at once, unless an interleaved operation has done it.
   */
  *#apply(from: number, target: number, changes: readonly Folded[]): Operation<void> {
    const isNew = ({ slot, low, high, rekeyed }: Folded) =>
      !isEmpty(low, high) && (rekeyed || !this.#bySlot.has(slot));
    const added = changes.filter(isNew);
    const keys = yield* readKeys(added);
    if (this.applied !== from) return;
    for (const { slot, low, high, rekeyed } of changes) {
      const node = this.#bySlot.get(slot);
      if (node === undefined) continue;
      if (rekeyed || isEmpty(low, high)) this.#remove(node);
      else Object.assign(node, { low, high });
    }
    added.forEach(({ slot, low, high }, i) => {
      this.#bySlot.set(slot, this.#partitionOf(slot).insert(keys[i], slot, low, high));
    });
    this.applied = target;
  }

  #remove(node: SkiplistNode): void {
    this.#partitionOf(node.slot).remove(node);
    this.#bySlot.delete(node.slot);
  }

  /** By the bucket, that is by the hash of the key (section 4.1). */
  #partitionOf(slot: Address): Skiplist {
    return this.#partitions[Math.floor(slot / 64) % this.#partitionCount];
  }
}

/** The last word of each slot, and whether its key has changed on the way. */
function fold(entries: readonly LogEntry[], from: number): Folded[] {
  const bySlot = new Map<Address, Folded>();
  entries.forEach(({ sequence, event, slot, low, high }, i) => {
    invariant(sequence === from + 1 + i, 'an entry of the log is not where it belongs');
    const rekeyed = event === LOG_DELETE || event === LOG_INSERT;
    const earlier = bySlot.get(slot);
    bySlot.set(slot, { slot, low, high, rekeyed: rekeyed || (earlier?.rekeyed ?? false) });
  });
  return [...bySlot.values()];
}

function* nothingMore(): Operation<void> {}
