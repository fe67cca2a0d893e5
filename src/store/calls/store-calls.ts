import { isOrdered, type OrderedIndex } from '../../indexes/contract.ts';
import type { Operation } from '../../verbs/index.ts';
import { measureStore } from '../administration/statistics.ts';
import type { ClientCounters, Entry, Key, KeyPage, Page, StoreStats } from '../api.ts';
import type { RangeBounds, RangeOptions } from '../ordered-api.ts';
import { prefixIn } from './arguments.ts';
import { inSection } from './attachment.ts';
import type { CopiedRecord } from './changes/copies.ts';
import { ManyCalls } from './many-calls.ts';
import { boundsOnly, rangeOf } from './ranges/key-range.ts';
import { RangeCount } from './ranges/range-count.ts';
import type { RangeScan } from './ranges/range-scan.ts';
import { checkPage, copiesOf, PageOfWalk, RecordWalk } from './ranges/record-walk.ts';
import { orderedIndex, planScan, type ScanPlan } from './ranges/scan-plan.ts';
import { refusedLoad, sortedLoad } from './ranges/sorted-load.ts';
import { entryTaker, keyTaker, rawKeyTaker } from './ranges/takers.ts';

/** Keys that `clear` removes together. */
const CLEAR_BATCH = 256;
/** A page of a copy ends behind so many bytes of values. */
const COPIED_BYTES_MAX = 8 * 2 ** 20;

/**
 * The calls of a store, for every fabric: those on one key and on many, and here those on all
 * records or on a range. A walk or a scan enters the pool for each step: between two steps it holds
 * nothing of the pool, however long its caller takes.
 */
export class StoreCalls<V> extends ManyCalls<V> {
  *size(): Operation<number> {
    if (this.settings.namespace !== undefined) return yield* this.#sizeOfNamespace();
    if (yield* this.#isTimed()) return yield* this.#sizeLive();
    return (yield* inSection(this.attachment, () => this.index.shape())).records;
  }

  /** On an ordered index the keys alone; on others the whole store is read. */
  *#sizeOfNamespace(): Operation<number> {
    if (isOrdered(this.index)) return yield* this.count();
    return yield* this.#sizeLive();
  }

  /** Where records expire, only they tell whether they count. */
  *#sizeLive(): Operation<number> {
    const walk = this.newWalk();
    let size = 0;
    while (!walk.done) size += (yield* this.#keysOf(walk)).length;
    return size;
  }

  *#isTimed(): Operation<boolean> {
    this.attachment.refuseClosed();
    return yield* inSection(this.attachment, () =>
      this.attachment.pool.catalog.isTimed(this.index.catalog),
    );
  }

  // biome-ignore lint/correctness/useYield: an operation as the other calls are
  *counters(): Operation<ClientCounters> {
    this.attachment.refuseClosed();
    const { retries, resizes } = this.index;
    const traffic = this.attachment.traffic.snapshot();
    return { traffic, retries: { ...retries }, resizes: { ...resizes } };
  }

  *stats(): Operation<StoreStats> {
    const traffic = this.attachment.traffic.snapshot();
    const { pool } = this.attachment;
    const { bounded, settings } = this;
    const measured = yield* inSection(this.attachment, () => measureStore(pool, this.index));
    if (bounded === undefined) return { traffic, ...measured };
    const bound = yield* inSection(this.attachment, () =>
      bounded.stats(settings.readOnly === true),
    );
    return { traffic, ...measured, bound };
  }

  *scanPage(cursor: number, count = 10): Operation<Page<V>> {
    this.attachment.refuseClosed();
    checkPage(cursor, count);
    const walk = this.newWalk(cursor);
    const page = new PageOfWalk<Entry<V>>(walk, count);
    while (!page.complete) page.add(yield* this.entriesOf(walk));
    return { cursor: walk.cursor, entries: page.found };
  }

  *scanKeys(cursor: number, count = 10, options: { prefix?: Key } = {}): Operation<KeyPage> {
    this.attachment.refuseClosed();
    checkPage(cursor, count);
    const prefix = prefixIn(options);
    const walk = this.newWalk(cursor, prefix);
    const page = new PageOfWalk<Uint8Array>(walk, count);
    while (!page.complete) page.add(yield* this.#keysOf(walk));
    return { cursor: walk.cursor, keys: page.found };
  }

  *first(bounds: RangeBounds = {}): Operation<Entry<V> | undefined> {
    return yield* this.#end(bounds, false);
  }

  *last(bounds: RangeBounds = {}): Operation<Entry<V> | undefined> {
    return yield* this.#end(bounds, true);
  }

  *count(bounds: RangeBounds = {}): Operation<number> {
    this.attachment.refuseClosed();
    const ordered = this.ordered();
    const { range } = rangeOf(boundsOnly(bounds));
    const within = this.settings.namespace?.within(range) ?? range;
    const counting = new RangeCount(ordered, within, yield* this.#isTimed());
    while (!counting.done) yield* inSection(this.attachment, () => counting.step());
    return counting.count;
  }

  /** The first keys of a range in its direction, at most so many. */
  *keysIn(bounds: RangeBounds, reverse: boolean, limit: number): Operation<Key[]> {
    this.attachment.refuseClosed();
    const range = { ...boundsOnly(bounds), reverse, limit };
    const plan = planScan(range, 'keys', keyTaker(this.settings), this.settings.namespace);
    return yield* this.takeOf(this.#scan(plan), limit);
  }

  *clear(range?: RangeOptions): Operation<void> {
    this.refuseWrite();
    if (range !== undefined) {
      yield* this.#clearRange(range);
      return;
    }
    if (this.settings.namespace !== undefined && isOrdered(this.index)) {
      yield* this.#clearRange({});
      return;
    }
    const walk = this.newWalk();
    while (!walk.done) {
      const keys: Uint8Array[] = [];
      while (!walk.done && keys.length < CLEAR_BATCH) {
        for (const key of yield* inSection(this.attachment, () => walk.keysToClear())) {
          keys.push(key);
        }
      }
      yield* this.deleteMany(keys);
    }
    // Of a store that is nearly empty that takes little, and finds counts that were lost.
    if (this.settings.namespace === undefined) yield* this.#recount();
  }

  *#recount(): Operation<void> {
    if (this.evictor !== undefined) yield* this.evictor.recount();
  }

  *loadSorted(entries: Iterable<readonly [Key, unknown]>): Operation<number> {
    this.attachment.refuseClosed();
    this.refuseWrite();
    if (this.bounded !== undefined) throw refusedLoad(this.settings.name);
    const refuseClosed = () => this.attachment.refuseClosed();
    const { name } = this.settings;
    const stored = ([key, value]: readonly [Key, unknown]) =>
      [this.keyIn(key), this.encoded(value)] as const;
    return yield* inSection(this.attachment, () =>
      sortedLoad(this.index, name, entries, this.versions.next(), refuseClosed, stored),
    );
  }

  /** Records as they stand in the store, some of them, and where to go on; 0 at the end. */
  *copyPage(cursor: number, count: number): Operation<{ cursor: number; records: CopiedRecord[] }> {
    this.attachment.refuseClosed();
    const walk = this.index.walk(cursor);
    const page = new PageOfWalk<CopiedRecord>(walk, count);
    let bytes = 0;
    while (!page.complete && bytes < COPIED_BYTES_MAX) {
      const group = yield* inSection(this.attachment, () => copiesOf(walk, this.index.records));
      for (const { value } of group) bytes += value.length;
      page.add(group);
    }
    return { cursor: walk.cursor, records: page.found };
  }

  newWalk(cursor?: number, prefix?: Key): RecordWalk<V> {
    this.attachment.refuseClosed();
    return new RecordWalk<V>(this.index, this.settings, cursor, prefix);
  }

  /** The records of the walk's next group. */
  *entriesOf(walk: RecordWalk<V>): Operation<Entry<V>[]> {
    const entries = yield* inSection(this.attachment, () => walk.entries());
    this.meter.countScanned(entries.length);
    return entries;
  }

  /** Up to `size` records of a scan; fewer at its end only. */
  *takeOf<T>(scan: RangeScan<T>, size: number): Operation<T[]> {
    let taken = scan.takeMany(size);
    while (taken.length < size && !scan.done) {
      yield* this.stepOf(scan);
      const more = scan.takeMany(size - taken.length);
      if (taken.length === 0) taken = more;
      else for (const value of more) taken.push(value);
    }
    return taken;
  }

  /** Reads the scan's next records. */
  *stepOf<T>(scan: RangeScan<T>): Operation<void> {
    yield* inSection(this.attachment, () => scan.step());
    this.meter.countScanned(scan.waiting);
  }

  /** Raises SW_UNSUPPORTED for an index whose keys have no order. */
  ordered(): OrderedIndex {
    return orderedIndex(this.index, this.settings.name);
  }

  *#keysOf(walk: RecordWalk<V>): Operation<Uint8Array[]> {
    const keys = yield* inSection(this.attachment, () => walk.keys());
    this.meter.countScanned(keys.length);
    return keys;
  }

  /** The first record of a range in its direction. */
  *#end(bounds: RangeBounds, reverse: boolean): Operation<Entry<V> | undefined> {
    this.attachment.refuseClosed();
    const range = { ...boundsOnly(bounds), reverse, limit: 1 };
    const plan = planScan(range, 'records', entryTaker<V>(this.settings), this.settings.namespace);
    return (yield* this.takeOf(this.#scan(plan), 1))[0];
  }

  *#clearRange(range: RangeOptions): Operation<void> {
    this.attachment.refuseClosed();
    const { namespace } = this.settings;
    const scan = this.#scan(planScan(range, 'keys', rawKeyTaker(namespace), namespace));
    for (;;) {
      const keys = yield* this.takeOf(scan, CLEAR_BATCH);
      if (keys.length === 0) return;
      yield* this.deleteMany(keys);
    }
  }

  #scan<T>(plan: ScanPlan<T>): RangeScan<T> {
    return plan.begin(this.ordered());
  }
}
