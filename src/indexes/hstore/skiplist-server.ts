import { invariant } from '../../errors.ts';
import { control } from '../../pool/control.ts';
import type { Address, Operation } from '../../verbs/index.ts';
import { holding, tryHolding } from './holding.ts';
import { readKeys } from './key-reader.ts';
import { LOG_DELETE, LOG_INSERT, type LogEntry } from './log.ts';
import { LogReader } from './log-reader.ts';
import type { Pair } from './pair.ts';
import { restoreTable } from './rebuild.ts';
import type { Skiplist } from './skiplist.ts';
import { type Folded, SkiplistImage } from './skiplist-image.ts';
import { isEmpty } from './slot.ts';
import { readState } from './state.ts';
import { readTableState, TableLost } from './table-state.ts';
import type { NamedSlot } from './table-walk.ts';
import { Waiting } from './waiting.ts';

/** Attempts to follow a log that is overwritten as it is read, before writes are held. */
const FUZZY_ATTEMPTS = 2;
const ATTEMPTS_MAX = 1000;

/** Where the slots of the pair's table come from when the skiplist has to be built. */
export type TableWalk = (
  visit: (slots: readonly NamedSlot[]) => Operation<void>,
) => Operation<void>;

type SlotVisitor = Parameters<TableWalk>[0];

/** What a walk over the table came to: what is to be changed in it to be as of `committed`. */
interface Built {
  committed: number;
  generation: number;
  changes: readonly Folded[];
}

const isNamed = ({ high }: Folded) => !isEmpty(high);

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
  #image: SkiplistImage;
  /** Everything up to here is in the skiplist; -1 before it was built. */
  applied = -1;
  /** Of which table its slots are. */
  #generation = 0;
  rebuilds = 0;

  constructor(pair: Pair, partitions: number, seed: number, walkTable: TableWalk) {
    this.#pair = pair;
    this.#partitionCount = partitions;
    this.#seed = seed;
    this.#walkTable = walkTable;
    this.log = new LogReader(pair.geometry);
    this.#image = this.#empty();
  }

  #empty(): SkiplistImage {
    return new SkiplistImage(this.#partitionCount, this.#seed);
  }

  get partitions(): readonly Skiplist[] {
    return this.#image.partitions;
  }

  get size(): number {
    return this.#image.size;
  }

  get image(): SkiplistImage {
    return this.#image;
  }

  /** The skiplist is lost, as with its process. */
  forget(): void {
    this.applied = -1;
    this.#image = this.#empty();
  }

  /** The table is another one now: where each node's slot is, in the order of the nodes. */
  relocate(image: SkiplistImage, slots: readonly Address[], generation: number): void {
    // An interleaved operation may have noticed, and built a skiplist of the new table.
    if (this.#image !== image) return;
    image.relocate(slots);
    this.#generation = generation;
  }

  /** Goes to a sequence by the log alone, if it can from the table that it knows. */
  *followLog(generation: number, target: number): Operation<boolean> {
    if (this.applied < 0 || this.#generation !== generation) return false;
    if (this.applied >= target) return true;
    const from = this.applied;
    const entries = yield* this.log.read(from, target);
    if (entries !== undefined) yield* this.#apply(from, target, fold(entries, from));
    return this.applied >= target;
  }

  /**
   * Applies what the log has. Afterwards all is in the skiplist that any GET or SCAN can have
   * seen before the call (`begun`), and nothing that a GET would not see after it (`committed`).
   */
  *catchUp(): Operation<void> {
    const { committed, generation } = yield* this.#settledState();
    for (let attempt = 1; !(yield* this.followLog(generation, committed)); attempt++) {
      if (this.#isBeyond(generation, committed)) return;
      yield* this.#rebuild(attempt > FUZZY_ATTEMPTS);
      invariant(attempt < ATTEMPTS_MAX, 'a skiplist never catches up');
    }
  }

  /** Whether it is of a later table, and so of all that was committed to that one before. */
  #isBeyond(generation: number, committed: number): boolean {
    return this.#generation > generation && this.applied >= committed;
  }

  *#settledState(): Operation<{ committed: number; generation: number }> {
    const committed = yield* this.settled();
    const { generation } = yield* readTableState(this.#pair.geometry);
    return { committed, generation };
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
      if (isTime && (yield* tryHolding(pair, nothingMore, waiting))) continue;
      yield* control.pause(waiting.pause);
    }
  }

  /**
   * From the table: what a walk over it meets, and then what the log says has changed since before
   * the walk. When the log is overwritten meanwhile again and again, writes are held.
   */
  *#rebuild(holdsWrites: boolean): Operation<void> {
    this.rebuilds++;
    const fresh = this.#empty();
    const add = function* (slots: readonly NamedSlot[]): Operation<void> {
      fresh.add(slots, yield* readKeys(slots));
    };
    try {
      const built = holdsWrites ? yield* this.#walkHolding(add) : yield* this.#walkFollowing(add);
      if (built === undefined) return;
      const { committed, generation, changes } = built;
      fresh.change(changes, yield* readKeys(changes.filter(isNamed)));
      // Of several interleaved operations that build one, another may have come further.
      if (
        this.#generation > generation ||
        (this.#generation === generation && this.applied >= committed)
      )
        return;
      this.#image = fresh;
      this.#generation = generation;
      this.applied = committed;
    } catch (error) {
      if (!(error instanceof TableLost)) throw error;
      yield* restoreTable(this.#pair, error.generation);
    }
  }

  /** Reads the table while writes go on; undefined when the log did not last for what they did. */
  *#walkFollowing(add: SlotVisitor): Operation<Built | undefined> {
    const { committed: from, generation } = yield* this.#settledState();
    yield* this.#walkTable(add);
    const { committed, generation: end } = yield* this.#settledState();
    // Slots of two tables are not one table.
    if (generation !== end) return undefined;
    const entries = yield* this.log.read(from, committed);
    if (entries === undefined) return undefined;
    const changes = fold(entries, from).map((folded) => ({ ...folded, rekeyed: true }));
    return { committed, generation, changes };
  }

  /** Reads the table as the holder of the lease, under which nobody writes. */
  #walkHolding(add: SlotVisitor): Operation<Built> {
    const pair = this.#pair;
    const walkTable = this.#walkTable;
    return holding(pair, 'writes cannot be held to build the skiplist', function* () {
      const { committed, table } = yield* readState(pair);
      yield* walkTable(add);
      return { committed, generation: table.generation, changes: [] };
    });
  }

  /**
   * Takes the skiplist from one sequence to a later one. Keys are read first. Their records are
   * there, because each is the last of its slot up to a sequence that was committed after this
   * operation began. Then all happens at once, unless an interleaved operation has done it.
   */
  *#apply(from: number, target: number, changes: readonly Folded[]): Operation<void> {
    const image = this.#image;
    const keys = yield* readKeys(changes.filter((change) => image.wantsKeyOf(change)));
    if (this.applied !== from || this.#image !== image) return;
    image.change(changes, keys);
    this.applied = target;
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
