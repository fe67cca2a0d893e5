import { invariant } from '../../errors.ts';
import { control } from '../../pool/control.ts';
import type { Operation } from '../../verbs/index.ts';
import { FoldedLog } from './folded-log.ts';
import { holding, readingAlone, tryCompleting } from './holding.ts';
import { HeadReader, readKeys } from './key-reader.ts';
import { LogReader } from './log-reader.ts';
import { OwnWaiting } from './own-waiting.ts';
import type { Pair } from './pair.ts';
import { restoreTable } from './rebuild.ts';
import { type Folded, type Relocation, SkiplistImage } from './skiplist-image.ts';
import { isEmpty } from './slot.ts';
import type { SlotList } from './slot-list.ts';
import { readState } from './state.ts';
import { readTableState, TableLost } from './table-state.ts';
import { Waiting } from './waiting.ts';

/** Attempts to follow a log that is overwritten as it is read, before writes are held. */
const FUZZY_ATTEMPTS = 2;
/** And attempts that whoever waits to write may end, as it does when this one is stopped. */
const YIELDING_ATTEMPTS = 4;
const ATTEMPTS_MAX = 1000;

/** Where the slots of the pair's table come from when the skiplist has to be built. */
export type TableWalk = (visit: (slots: SlotList) => Operation<void>) => Operation<void>;

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
  /** Whether an operation of this client takes it further. */
  #works = false;
  /** Changes as long as that one gets ahead. */
  #progress = 0;

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

  /** The table is another one now, with each node's slot elsewhere. */
  relocate(image: SkiplistImage, relocation: Relocation, generation: number): void {
    // An interleaved operation may have noticed, and built a skiplist of the new table.
    if (this.#image !== image) return;
    image.relocate(relocation);
    this.#generation = generation;
  }

  /** Goes to a sequence by the log alone, if it can from the table that it knows. */
  *followLog(generation: number, target: number): Operation<boolean> {
    while (this.applied >= 0 && this.#generation === generation) {
      if (this.applied >= target) return true;
      // Again, when an interleaved operation was faster with a part of it.
      const from = this.applied;
      const log = new FoldedLog(this.log, from);
      if (!(yield* log.follow(target))) return false;
      yield* this.#apply(from, target, log.changes);
    }
    return false;
  }

  /**
   * Applies what the log has. Afterwards all is in the skiplist that any GET or SCAN can have
   * seen before the call (`begun`), and nothing that a GET would not see after it (`committed`).
   * One operation of a client works at a time, the others wait for what it comes to: each of a
   * hundred scans that begin together would build a skiplist of its own.
   */
  *catchUp(): Operation<void> {
    const { committed, generation } = yield* this.#settledState();
    const { patience } = this.#pair;
    const waiting = new OwnWaiting(patience, 'this client builds its skiplist and gets no further');
    for (let attempt = 1; !this.#has(generation, committed); ) {
      if (this.#works) {
        yield* waiting.pause(this.#progress);
        continue;
      }
      yield* this.#advance(generation, committed, attempt++);
      invariant(attempt < ATTEMPTS_MAX, 'a skiplist never catches up');
    }
  }

  /** Follows the log as far as it is committed, if that can be done; waits for nobody. */
  *keepUp(): Operation<void> {
    if (this.#works) return;
    this.#works = true;
    try {
      const { committed, table } = yield* readState(this.#pair);
      yield* this.followLog(table.generation, committed);
    } finally {
      this.#works = false;
    }
  }

  *#advance(generation: number, target: number, attempt: number): Operation<void> {
    this.#works = true;
    try {
      if (yield* this.followLog(generation, target)) return;
      if (!this.#has(generation, target)) yield* this.#rebuild(attempt);
    } finally {
      this.#works = false;
    }
  }

  /**
   * Whether it is as of this sequence; or of a later table, and so of all that was committed to
   * that one before.
   */
  #has(generation: number, committed: number): boolean {
    return this.#generation >= generation && this.applied >= committed;
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
      // A server begins one turn at a time, and the log keeps two.
      const isNear = begun - state.committed <= pair.geometry.logEntries;
      invariant(isNear, `change ${begun} has begun, and ${state.committed} are committed`);
      // The hash server is at it, or it died: then its turn is completed here.
      yield* waiting.poll(state.holder, state.progress);
      const isTime = state.holder.client === 0 || waiting.isTime;
      if (isTime && (yield* tryCompleting(pair, waiting))) continue;
      yield* control.pause(waiting.pause);
    }
  }

  /**
   * From the table: what a walk over it meets, and then what the log says has changed since before
   * the walk. When the log is overwritten meanwhile again and again, writes are held.
   */
  *#rebuild(attempt: number): Operation<void> {
    this.rebuilds++;
    const fresh = this.#empty();
    try {
      const built =
        attempt > FUZZY_ATTEMPTS
          ? yield* this.#walkHolding(fresh, attempt > FUZZY_ATTEMPTS + YIELDING_ATTEMPTS)
          : yield* this.#walkFollowing(fresh);
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

  /**
   * Reads the table while writes go on, and follows the log on the way: so it is only lost to a
   * process that stands still. Then undefined.
   */
  *#walkFollowing(fresh: SkiplistImage): Operation<Built | undefined> {
    const { committed: from, generation } = yield* this.#settledState();
    const log = new FoldedLog(this.log, from);
    const follow = () => this.#follow(log);
    yield* this.#fill(fresh, follow);
    const { committed, generation: end } = yield* this.#settledState();
    // Slots of two tables are not one table.
    if (generation !== end) return undefined;
    if (!(yield* log.follow(committed))) return undefined;
    const changes = log.changes.map((folded) => ({ ...folded, rekeyed: true }));
    return { committed, generation, changes };
  }

  /** What was overwritten is found missing at the end. */
  *#follow(log: FoldedLog): Operation<void> {
    yield* log.follow((yield* this.log.progress()).committed);
  }

  /**
   * Reads the table as the holder of the lease, under which nobody writes. The list is linked under
   * it as well: in that time the log could come round again. Only who has tried that in vain, and
   * who is fenced when it stands still, has a lease for that which nobody takes from it.
   */
  *#walkHolding(fresh: SkiplistImage, isPatient: boolean): Operation<Built | undefined> {
    const pair = this.#pair;
    const fill = () => this.#fill(fresh, () => pair.hashLease.beat());
    const walk = function* () {
      const { committed, table } = yield* readState(pair);
      yield* fill();
      return { committed, generation: table.generation, changes: [] };
    };
    const what = 'writes cannot be held to build the skiplist';
    const { serves, client, token } = yield* pair.hashLease.holder();
    const isOwn = serves && client === pair.hashLease.own;
    const isAlone = isPatient || isOwn || token !== 0;
    return yield* isAlone ? holding(pair, what, walk) : readingAlone(pair, what, walk);
  }

  /** Takes all of the table into an image. */
  *#fill(fresh: SkiplistImage, follow: () => Operation<void>): Operation<void> {
    const { meanwhile } = this.#pair;
    const heads = new HeadReader();
    const advance = () => {
      this.#progress++;
    };
    yield* this.#walkTable(function* (slots) {
      advance();
      const { slot, low, high } = slots;
      yield* heads.read(slots, (i, key) => fresh.add(slot[i], low[i], high[i], key));
      yield* follow();
    });
    yield* fresh.link(function* () {
      advance();
      yield* follow();
      yield* meanwhile();
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
