import { type ErrorCode, StepwellError } from '../../errors.ts';
import type { CheckSink, Index } from '../../indexes/contract.ts';
import { classOfHead } from '../../indexes/substrates/record-io.ts';
import type { Request } from '../../indexes/substrates/request.ts';
import { sweep } from '../../indexes/sweep.ts';
import { shapeOf } from '../../indexes/traversal/count.ts';
import { blockOfBound } from '../../pool/bound.ts';
import type { CatalogEntry } from '../../pool/catalog.ts';
import { type ClientRow, storesIn } from '../../pool/clients/membership.ts';
import { control } from '../../pool/control.ts';
import { BLOCK_UNITS_MAX, blocksPerChunk, CHUNK_BYTES, stateMapBytes } from '../../pool/layout.ts';
import { BLOCK_FREE, isCurrentState } from '../../pool/memory/block-state.ts';
import { holdsBlocks, isFor, isKnownState, unpackChunk } from '../../pool/memory/chunk-word.ts';
import type { OpenStore } from '../../pool/open-stores.ts';
import type { Pool } from '../../pool/pool.ts';
import {
  FLAG_CHAINED,
  HEADER_BYTES,
  headUnitsOf,
  KEY_BYTES_AND_KIND,
  SLOT_UNITS_MAX,
  VALUE_BYTES,
  VALUE_BYTES_MAX,
} from '../../records/layout.ts';
import { type Address, Batch, type Operation, Scratch, UNIT_BYTES } from '../../verbs/index.ts';
import type { CheckOptions, CheckReport } from '../reports.ts';

/** Maximum number of problems to report; any others are left out. */
const PROBLEMS_LISTED_MAX = 1000;
/** Errors that walking a damaged index raises. */
const DAMAGE: readonly ErrorCode[] = ['SW_POOL_CORRUPT', 'SW_RECORD_CORRUPT', 'SW_CONTENTION'];

/**
 * Checks the stores one after the other, then accounts for every block: reachable by a key, claimed
 * by a client, or free. A reachable block that is marked free would be allocated again; a record in
 * a claimed block that no key reaches may have been lost.
 *
 * A block in use that no key reaches belongs to a living client, was left by a dead one, or is
 * lost. A sweep brings back what dead clients left. A block is known to be lost only if no living
 * client names its store: a client that names it may have claimed or retired the block. A client
 * that no longer names it has given all its blocks back (OpenStores).
 */
export function* checkStores(
  pool: Pool,
  url: string,
  openIndex: (entry: CatalogEntry) => Operation<Index>,
  options: CheckOptions & Pick<CheckSink, 'each'> = {},
): Operation<CheckReport> {
  const problems: string[] = [];
  const problem = (text: string) => {
    if (problems.length < PROBLEMS_LISTED_MAX) problems.push(text);
  };
  const before = yield* otherRows(pool);
  const lost = new UnreachableRecords(problem);
  const accounts = new BlockAccounts(pool, problem, lost);
  const stores: CheckReport['stores'] = [];
  const opened: OpenStore[] = [];
  for (const { ready, name } of yield* pool.catalog.entries()) {
    const one = ready ? yield* pool.stores.open(name) : undefined;
    if (one === undefined) continue;
    opened.push(one.store);
    const inStore = (text: string) => problem(`store ${name}: ${text}`);
    stores.push(yield* checkStore(one.entry, openIndex, accounts, inStore, options));
  }
  const blocks = yield* accounts.compare((catalog) => useOfStore(before, before, catalog));
  const after = yield* otherRows(pool);
  accounts.judge((catalog) => useOfStore(before, after, catalog));
  if (options.sweep && problems.length === 0) yield* sweepAll(pool, [...accounts.walked.values()]);
  // Kept open until now, so that no other client could be given the memory of a dropped store.
  for (const store of opened) pool.stores.close(store);
  const leftover = { blocks: 0, bytes: 0 };
  for (const store of stores) {
    leftover.blocks += store.leftover.blocks;
    leftover.bytes += store.leftover.bytes;
  }
  const unfinished = (yield* pool.catalog.unfinished()).map(({ kind, chunks }) => {
    return { index: kind || 'unknown', chunks, bytes: chunks * CHUNK_BYTES };
  });
  return { url, stores, blocks, leftover, unreachable: lost.count, unfinished, problems };
}

/** All rows of the client table except this client's, including free ones: for incarnations. */
function* otherRows(pool: Pool): Operation<ClientRow[]> {
  return (yield* pool.membership.rows(true)).filter(({ id }) => id !== pool.membership.id);
}

/** How other clients use a store: none names it, all that do are idle, or some hold blocks. */
type Use = 'none' | 'idle' | 'busy';

/** Compares the client table read before the check with the one read after it. */
function useOfStore(
  before: readonly ClientRow[],
  after: readonly ClientRow[],
  catalog: number,
): Use {
  let use: Use = 'none';
  before.forEach((row, i) => {
    const now = after[i];
    const hasJoined = row.incarnation !== now.incarnation;
    if (!hasJoined && !storesIn(row.stores | now.stores).includes(catalog)) return;
    // An idle client has given back its claims; its floor shows whether retired blocks wait.
    const isIdle = [row, now].every(({ epoch, limboFloor }) => epoch === 0 && limboFloor === 0);
    if (hasJoined || !isIdle) use = 'busy';
    else if (use === 'none') use = 'idle';
  });
  return use;
}

/** One sweep covers every store that a client has died with, so the first is usually enough. */
function* sweepAll(pool: Pool, stores: readonly WalkedStore[]): Operation<void> {
  for (const { index } of stores) {
    if ((yield* pool.catalog.unswept(index.records.catalog)) > 0) yield* sweep(pool, index, false);
  }
  for (const { index, report } of stores) {
    report.leftover.swept = (yield* pool.catalog.unswept(index.records.catalog)) === 0;
  }
}

/** A store that cannot be walked to its end is a problem. The other stores are still checked. */
function* checkStore(
  entry: CatalogEntry,
  openIndex: (entry: CatalogEntry) => Operation<Index>,
  accounts: BlockAccounts,
  problem: (text: string) => void,
  { onProgress, each }: CheckOptions & Pick<CheckSink, 'each'>,
): Operation<CheckReport['stores'][number]> {
  const { name, unswept } = entry;
  const leftover = { blocks: 0, bytes: 0, atMost: false, swept: false };
  const found = { name, records: 0, subtables: 0, slots: 0, bytes: 0, unswept, leftover };
  try {
    const index = yield* openIndex(entry);
    const { subtables, slots, records } = yield* shapeOf(index);
    Object.assign(found, { subtables, slots });
    found.records = yield* index.check({
      problem,
      reachable: (address, units) => {
        found.bytes += units * UNIT_BYTES;
        accounts.reach(address, units, entry.id);
      },
      progress: (done) => onProgress?.(done, records),
      ...(each && { each }),
    });
    yield* accounts.reachBound(entry.id);
    accounts.walked.set(entry.id, { index, isSwept: unswept === 0, report: found });
  } catch (error) {
    if (!(error instanceof StepwellError && DAMAGE.includes(error.code))) throw error;
    problem(`the walk ends early: ${error.message}`);
  }
  return found;
}

/** A store whose reachable blocks have all been visited. */
interface WalkedStore {
  index: Index;
  /** Whether dead clients cannot have left unreachable blocks. */
  isSwept: boolean;
  report: CheckReport['stores'][number];
  /** Blocks in use that no key reaches and that this client does not hold. */
  unreached?: { blocks: number; bytes: number };
}

/** Reachable blocks of a chunk, with the block size and store of the first one reached. */
interface Reached {
  blocks: Uint8Array;
  units: number;
  catalog: number;
}

/** Which blocks of which chunks are reachable. */
class BlockAccounts {
  readonly #pool: Pool;
  readonly #problem: (text: string) => void;
  readonly #lost: UnreachableRecords;
  readonly #reached = new Map<number, Reached>();
  /** Stores whose indexes were walked to their end, by catalog entry. */
  readonly walked = new Map<number, WalkedStore>();
  #spans = 0;

  constructor(pool: Pool, problem: (text: string) => void, lost: UnreachableRecords) {
    this.#pool = pool;
    this.#problem = problem;
    this.#lost = lost;
  }

  /** Decides, store by store, whether unreached blocks are leftover or a problem. */
  judge(use: (catalog: number) => Use): void {
    for (const { index, isSwept, report, unreached } of this.walked.values()) {
      const others = use(index.records.catalog);
      if (unreached === undefined) continue;
      const { blocks, bytes } = unreached;
      if (!isSwept) Object.assign(report.leftover, { blocks, bytes, atMost: others === 'busy' });
      else if (others === 'none') {
        const what = 'blocks are in use that no key reaches and no client has';
        this.#problem(`store ${report.name}: ${what}: ${blocks} of ${bytes} bytes`);
      }
    }
  }

  /** Reaches the block of a bounded store, which is not part of its index. */
  *reachBound(catalog: number): Operation<void> {
    const bound = yield* this.#pool.catalog.boundOf(catalog);
    if (bound === undefined) return;
    const { address, units } = blockOfBound(this.#pool.membership.clientsMax, bound);
    this.reach(address, units, catalog);
  }

  reach(address: Address, units: number, catalog: number): void {
    if (units > BLOCK_UNITS_MAX) {
      this.#spans++;
      return;
    }
    const chunk = this.#pool.chunks.chunkOf(address);
    const blocks = blocksPerChunk(units);
    const index = this.#blockIndex(address, chunk, units, blocks);
    if (index === undefined) {
      this.#problem(`block at ${address} is not where blocks of ${units} units are`);
      return;
    }
    let reached = this.#reached.get(chunk);
    if (reached === undefined) {
      reached = { blocks: new Uint8Array(blocks), units, catalog };
      this.#reached.set(chunk, reached);
    }
    if (reached.blocks[index] === 1) this.#problem(`block at ${address} is reached twice`);
    reached.blocks[index] = 1;
  }

  #blockIndex(address: Address, chunk: number, units: number, blocks: number): number | undefined {
    const start = this.#pool.layout.chunkStart(chunk) + stateMapBytes(blocks);
    const index = (address - start) / (units * UNIT_BYTES);
    return Number.isInteger(index) && index >= 0 && index < blocks ? index : undefined;
  }

  /** Also looks for lost records in the blocks of stores that no other client uses. */
  *compare(use: (catalog: number) => Use): Operation<CheckReport['blocks']> {
    const own = new Set(this.#ownBlocks());
    const totals = { reachable: this.#spans, claimed: 0, free: 0 };
    const untaken = new Set(this.#reached.keys());
    for (const [chunk, packed] of yield* this.#pool.chunks.words()) {
      const word = unpackChunk(packed);
      this.#checkUse(chunk, word);
      untaken.delete(chunk);
      if (holdsBlocks(word.state)) {
        const unreached = yield* this.#compareChunk(chunk, word.units, totals);
        const walked = this.walked.get(word.catalog);
        if (walked === undefined) continue;
        const others = unreached.filter(({ address }) => !own.has(address));
        if (others.length > 0) {
          walked.unreached ??= { blocks: 0, bytes: 0 };
          walked.unreached.blocks += others.length;
          walked.unreached.bytes += others.length * word.units * UNIT_BYTES;
        }
        if (use(word.catalog) === 'none') yield* this.#lost.look(walked, word.units, others);
      }
      if (!isKnownState(word.state)) {
        this.#problem(`chunk ${chunk} is in unknown state ${word.state}`);
      }
    }
    for (const chunk of untaken) this.#problem(`chunk ${chunk} was never taken`);
    return totals;
  }

  *#ownBlocks(): Iterable<Address> {
    yield* this.#pool.reclamation.waiting();
    for (const { cache } of this.#pool.allocator.classes()) yield* cache;
  }

  #checkUse(chunk: number, word: ReturnType<typeof unpackChunk>): void {
    const reached = this.#reached.get(chunk);
    if (reached === undefined) return;
    const { units, catalog } = reached;
    if (isFor(catalog, units, word)) return;
    this.#problem(`chunk ${chunk} holds blocks of ${units} units but says ${JSON.stringify(word)}`);
  }

  /** Returns the blocks that are in use and that nothing reaches. */
  *#compareChunk(
    chunk: number,
    units: number,
    totals: CheckReport['blocks'],
  ): Operation<UnreachedBlock[]> {
    const unreached: UnreachedBlock[] = [];
    if (units < 1 || units > BLOCK_UNITS_MAX) {
      this.#problem(`chunk ${chunk} holds blocks of ${units} units`);
      return unreached;
    }
    const blocks = blocksPerChunk(units);
    const start = this.#pool.layout.chunkStart(chunk);
    const states = yield* control.readBytes(start, stateMapBytes(blocks));
    const reached = this.#reached.get(chunk)?.blocks;
    for (let i = 0; i < blocks; i++) {
      const isReached = reached?.[i] === 1;
      if (isReached) totals.reachable++;
      else if (states[i] === BLOCK_FREE) totals.free++;
      else {
        totals.claimed++;
        const address = start + stateMapBytes(blocks) + i * units * UNIT_BYTES;
        unreached.push({ address, state: states[i] });
      }
      if (isReached && states[i] === BLOCK_FREE) {
        this.#problem(`block ${i} of chunk ${chunk} is reachable but marked free`);
      }
    }
    return unreached;
  }
}

const HEADERS_AT_ONCE = 256;
/** In a damaged index each search may fail slowly. After this many failures, stop searching. */
const FAILED_SEARCHES_MAX = 8;

/** A block that is in use but that nothing reaches. */
interface UnreachedBlock {
  address: Address;
  state: number;
}

/**
 * Finds records that an index has lost: intact records in blocks in use that no walk of the index
 * has visited, and whose keys a search does not find.
 *
 * A client that was killed leaves such records as well: records that it had unlinked but not freed,
 * or written but not linked. Blocks that it kept for reuse may hold old ones. Nothing in the pool
 * tells these from lost ones. Say a client removes a key from a table of slots: it swaps the slot
 * to 0 and dies. A slot that damage has zeroed looks the same, and so does its record. So a record
 * is certainly lost only if no client has died with the store open since a complete sweep
 * (`CatalogEntry.unswept`), because a sweep frees what dead clients have left. HStore marks are
 * always certain: a block that is marked as current holds a record that has not been removed.
 */
class UnreachableRecords {
  readonly #problem: (text: string) => void;
  readonly #failures = new Map<Index, number>();
  count = 0;

  constructor(problem: (text: string) => void) {
    this.#problem = problem;
  }

  /** Looks for lost records in the store's blocks of one size. */
  *look(store: WalkedStore, units: number, blocks: readonly UnreachedBlock[]): Operation<void> {
    const { index } = store;
    const request = index.newRequest();
    const headers = new Scratch(HEADER_BYTES * HEADERS_AT_ONCE);
    for (let first = 0; first < blocks.length; first += HEADERS_AT_ONCE) {
      const some = blocks.slice(first, first + HEADERS_AT_ONCE);
      const batch = new Batch();
      some.forEach(({ address }, i) => {
        batch.read(address, HEADER_BYTES, headers, HEADER_BYTES * i);
      });
      yield batch;
      for (let i = 0; i < some.length; i++) {
        if (!mayBeRecord(headers, HEADER_BYTES * i, units)) continue;
        yield* this.#lookAt(store, request, units, some[i]);
      }
    }
  }

  *#lookAt(
    { index, isSwept }: WalkedStore,
    request: Request,
    units: number,
    { address, state }: UnreachedBlock,
  ): Operation<void> {
    const isMarked = index.manifest.marksCurrent === true;
    if (isMarked && !isCurrentState(state)) return;
    if (!(yield* readIntact(index, request, address, units))) return;
    if (yield* this.#isFound(index, request)) return;
    this.count++;
    if (!isMarked && !isSwept) return;
    this.#problem(`record at ${address} is intact, and no search finds its key`);
  }

  *#isFound(index: Index, request: Request): Operation<boolean> {
    const failures = this.#failures.get(index) ?? 0;
    if (failures >= FAILED_SEARCHES_MAX) return false;
    try {
      return yield* index.search(request);
    } catch (error) {
      if (!(error instanceof StepwellError)) throw error;
      this.#failures.set(index, failures + 1);
      return false;
    }
  }
}

/** Whether a header fits a record in a block of exactly this size. */
function mayBeRecord({ i32 }: Scratch, at: number, units: number): boolean {
  const kind = i32[(at + KEY_BYTES_AND_KIND) >> 2];
  const valueBytes = i32[(at + VALUE_BYTES) >> 2] >>> 0;
  if (valueBytes > VALUE_BYTES_MAX) return false;
  const chained = ((kind >>> 24) & FLAG_CHAINED) !== 0;
  return classOfHead(headUnitsOf(kind & 0xffff, valueBytes, chained)) === units;
}

function* readIntact(
  { records }: Index,
  request: Request,
  address: Address,
  units: number,
): Operation<boolean> {
  try {
    yield* records.adopt(request, address, Math.min(units, SLOT_UNITS_MAX));
    yield* records.complete(request);
    return true;
  } catch (error) {
    // The block holds old contents, or part of a record whose other blocks have been reused.
    if (error instanceof StepwellError) return false;
    throw error;
  }
}
