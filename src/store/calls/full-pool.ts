import { publish } from '../../diagnostics.ts';
import { StepwellError } from '../../errors.ts';
import type { Index } from '../../indexes/contract.ts';
import { FullAhead } from '../../indexes/substrates/leaf/leaf-turns.ts';
import { classOfHead } from '../../indexes/substrates/record-io.ts';
import type { Request } from '../../indexes/substrates/request.ts';
import { sweep } from '../../indexes/sweep.ts';
import { EPOCHS_TO_RIPEN } from '../../pool/clients/limbo.ts';
import { FullForNow } from '../../pool/clients/reclamation.ts';
import { control } from '../../pool/control.ts';
import { BLOCK_UNITS_MAX, blocksPerChunk, CHUNK_BYTES, SUPERBLOCK } from '../../pool/layout.ts';
import type { Lacking } from '../../pool/memory/allocator.ts';
import { unpackChunk } from '../../pool/memory/chunk-word.ts';
import type { Pool } from '../../pool/pool.ts';
import { blockBytesOf, fitsOneBlock, planChain } from '../../records/layout.ts';
import { Batch, type Operation, Scratch } from '../../verbs/index.ts';
import { type Attachment, inSection } from '../attachment.ts';
import type { Evictor } from '../eviction/evictor.ts';
import { ExpirySweep } from './expiry-sweep.ts';

/**
 * Steps of a store without eviction. They remove some expired records first, then all of them: only
 * an empty chunk has room for blocks of another size. The last sweep is repeated, because the first
 * may have been another client's, or other clients may have taken what it freed.
 */
const STEPS = ['ripen', 'reclaim', 'expire', 'sweep', 'expire all', 'sweep', 'sweep'] as const;

/**
 * Steps of a bounded store. It evicts when its pool is full, even if the store is not. Evicting
 * sampled records helps a write of about their size; draining evicts the records of one chunk. A
 * leaf that cannot be split meanwhile loses a record, or an old leaf loses all of its records. An
 * index that does not free the blocks of deleted records at once frees them in a sweep.
 */
const BOUNDED_STEPS = [
  'ripen',
  'empty old table',
  'reclaim',
  'expire',
  'evict',
  'drain',
  'evict in table',
  'sweep',
  'evict',
  'drain',
  'evict in table',
  'sweep',
  'drain',
  'evict in table',
  'sweep',
  'drain',
  'evict in table',
] as const;

/**
 * How often a write waits for an epoch before it takes other steps. After each wait only a few of
 * the writes in flight find memory, and any write may be the last of them.
 */
const WAITS_MAX = 64;

/** The failed call. A sweep may help a deletion without freeing memory (`Index.compact`). */
type WriteKind = 'deletion' | 'write';

/** The steps that were tried for one write that met the full pool. */
export class ReclaimProgress {
  readonly kind: WriteKind;
  /** The write: nothing is evicted for a record that cannot fit. Undefined for a deletion. */
  readonly request: Request | undefined;
  /** Memory that the last attempt lacked. */
  lacking: Lacking | undefined;
  waits = 0;
  /** How often it has waited for a table that another write of this client empties. */
  tableWaits = 0;
  steps = 0;
  /** How often it has evicted a record from its own table. */
  evictionsInTable = 0;
  /** How many of these steps were 'drain'. */
  drains = 0;
  /** Whether the chunks that freed nothing before were tried once more. */
  anew = false;

  constructor(kind: WriteKind, request?: Request) {
    this.kind = kind;
    this.request = request;
  }
}

type Step = (typeof STEPS)[number] | (typeof BOUNDED_STEPS)[number];

/** Most sampled records that are evicted for one write. */
const EVICTIONS_MAX = 16;
/** How often a write makes room in its own table before it sweeps the store. */
const EVICTIONS_IN_TABLE_MAX = 64;
/**
 * How often a write waits for another one that empties an old table, and for how many turns: the
 * other may have been abandoned.
 */
const TABLE_WAITS_MAX = 4;
const TURNS_MAX = 100_000;
/** Samples without a victim after which a step gives up. */
const VAIN_MAX = 16;
/** How often one step has the index free evicted records. Each time takes a merge or two. */
const RELEASES_MAX = 4;

/** Expired records that a step removes: their memory lasts for a while. */
const ENOUGH = 512;
/** Most rounds of ENOUGH records, to bound a write's pause when all records have expired. */
const EXPIRY_ROUNDS_MAX = 8;

/** Otherwise each of many writes in flight over a network would ask the nodes about all clients. */
const RECOVERY_INTERVAL_MS = 500;

/** Makes room in a full pool, so that a write that failed can be run again. */
export class FullPool {
  readonly #attachment: Attachment;
  readonly #index: Index;
  readonly #store: string;
  readonly #vain: VainSweeps;
  readonly #expired: ExpirySweep;
  readonly #evictor: Evictor | undefined;
  #recoveredAt = Number.NEGATIVE_INFINITY;
  /** For this write the client empties an old table, until it has used or missed the block. */
  #emptier: ReclaimProgress | undefined;

  constructor(attachment: Attachment, index: Index, store: string, evictor?: Evictor) {
    this.#store = store;
    this.#attachment = attachment;
    this.#index = index;
    this.#vain = new VainSweeps(attachment.pool);
    this.#expired = new ExpirySweep(attachment, index, evictor);
    this.#evictor = evictor;
  }

  /**
   * Runs after a write has failed, and before it is tried again: takes the steps that this write
   * has not tried until one helps. Raises the error when it is not SW_POOL_FULL, or nothing helps.
   */
  *makeRoom(error: unknown, tried: ReclaimProgress): Operation<void> {
    this.ended(tried);
    if (!(error instanceof StepwellError) || error.code !== 'SW_POOL_FULL') throw error;
    if (error instanceof FullAhead) {
      yield* this.#waitForEmptier();
      return;
    }
    if (error instanceof FullForNow && tried.steps === 0 && tried.waits < WAITS_MAX) {
      tried.waits++;
      if (yield* this.#wait(error)) return;
    }
    tried.lacking = this.#attachment.pool.allocator.lackedBy(error);
    const steps = this.#stepsFor(tried.request);
    while (tried.steps < steps.length) {
      if (yield* this.#take(steps[tried.steps++], tried)) return;
    }
    if (!tried.anew) {
      tried.anew = true;
      if (yield* this.#alone(() => this.#attachment.pool.reclaimingAnew())) return;
    }
    publish('full', () => ({ store: this.#store, write: tried.kind }));
    throw (yield* this.#heldBack(error)) ?? error;
  }

  /** The write has succeeded, or has to try other steps. */
  ended(tried: ReclaimProgress): void {
    if (this.#emptier === tried) this.#emptier = undefined;
  }

  /** A record of several chunks needs as many drained, or twice as many if others take some. */
  #stepsFor(request: Request | undefined): readonly Step[] {
    if (!this.#evictor?.store.evicts) return STEPS;
    const bytes = request ? blockBytesOf(request.keyBytes, request.record.valueBytes) : 0;
    const more = 2 * Math.floor(bytes / CHUNK_BYTES);
    return [...BOUNDED_STEPS, ...Array.from({ length: more }, () => 'drain' as const)];
  }

  *#wait({ epoch }: FullForNow): Operation<boolean> {
    const { pool } = this.#attachment;
    // Another operation of this client has already waited for this epoch.
    if (pool.reclamation.announced >= epoch) return true;
    return yield* this.#alone(() => pool.reaching(epoch));
  }

  /** The error that names the clients that hold back this one's retired blocks. */
  *#heldBack(cause: StepwellError): Operation<StepwellError | undefined> {
    const { reclamation, membership } = this.#attachment.pool;
    if (reclamation.retired === 0 || reclamation.lagging.length === 0) return undefined;
    const named: string[] = [];
    for (const id of reclamation.lagging) {
      const { thread, name } = yield* membership.rowNamed(id);
      named.push(`client ${id} (row ${id}, pid ${thread.pid}, ${name})`);
    }
    const waits = `wait for ${named.join(', ')}`;
    const what = `${reclamation.retired} blocks of records that are gone ${waits}`;
    const why = 'which has stood still since it began an operation: let it go on, or end it';
    return new StepwellError('SW_POOL_FULL', `${cause.message}; ${what}, ${why}`, { cause });
  }

  *#take(step: Step, tried: ReclaimProgress): Operation<boolean> {
    const { kind, lacking, request } = tried;
    if (step === 'ripen') return yield* this.#ripenFor(lacking);
    if (step === 'reclaim') return yield* this.#reclaim();
    if (step === 'sweep') return (yield* this.#hasLost()) && (yield* this.#sweep(kind));
    if (step === 'evict') return (yield* this.#mayFit(request)) && (yield* this.#evict(tried));
    if (step === 'evict in table') return yield* this.#evictInTable(tried);
    if (step === 'empty old table') return yield* this.#emptyOldTable(tried);
    if (step === 'drain') return (yield* this.#mayFit(request)) && (yield* this.#drain(tried));
    return yield* this.#expire(step === 'expire' ? ENOUGH : Number.POSITIVE_INFINITY);
  }

  /**
   * Removes expired records, in several rounds while most records have expired. After few removals
   * the free blocks are scattered over all chunks, and new records would take them. Then no chunk
   * comes free for blocks of another size, such as a sibling of a full leaf, however much of the
   * pool is free.
   */
  *#expire(enough: number): Operation<boolean> {
    let removed = 0;
    for (let round = 1; ; round++) {
      const more = yield* this.#expired.removeSome(enough, () => this.#makeRoomToRemove());
      if (more > 0) yield* this.#reclaim();
      removed += more;
      if (more < enough || !this.#expired.areMostExpired || round === EXPIRY_ROUNDS_MAX) break;
    }
    return removed > 0;
  }

  /** Whether the record would fit into the chunks that this store has or could get. */
  *#mayFit(request: Request | undefined): Operation<boolean> {
    if (request === undefined) return true;
    const wanted = blockBytesOf(request.keyBytes, request.record.valueBytes);
    if (wanted <= CHUNK_BYTES) return true;
    const { chunks, layout } = this.#attachment.pool;
    let most = layout.chunksMax - layout.tableChunks;
    for (const [, word] of yield* chunks.words()) {
      const { catalog } = unpackChunk(word);
      if (catalog !== 0 && catalog !== this.#index.records.catalog) most--;
    }
    return wanted <= most * CHUNK_BYTES;
  }

  /**
   * Evicts sampled records until enough blocks of the size that the write lacks are retired. Does
   * nothing while so many blocks of other sizes are free that draining one of their chunks costs
   * fewer records. If the index can free records that were evicted before, it does that first. If a
   * table cannot grow, evicts a record from where the table would keep the new one.
   */
  *#evict({ request, lacking }: ReclaimProgress): Operation<boolean> {
    const { allocator } = this.#attachment.pool;
    if (this.#evictor?.drain.hasSlack || lacking === undefined) return false;
    const evictor = this.#evictor as Evictor;
    if (!this.#isOfRecords(lacking)) {
      return request?.isInTable === true && (yield* evictor.evictInTable(request));
    }
    if (!(yield* this.#canUseEvicted())) return false;
    const isLate = this.#index.manifest.retiresLate === true;
    if (isLate && (yield* this.#release(lacking))) return true;
    const { catalog, units, count } = lacking;
    const enough = allocator.sizeClass(catalog, units).claimsMax(true);
    const { reclamation } = this.#attachment.pool;
    let evicted = 0;
    for (let tries = 0; evicted < EVICTIONS_MAX && tries < EVICTIONS_MAX + VAIN_MAX; tries++) {
      if (reclamation.waitingOf(catalog, units) >= enough) break;
      if (yield* evictor.evictOne()) evicted++;
    }
    // Victims are old, and may all be in the chunk that is being drained, whose records are of one
    // age. Without their blocks the write would have to wait until the whole chunk is empty.
    evictor.drain.keepFreed(count);
    try {
      if (isLate) return yield* this.#release(lacking);
      return evicted > 0 && (yield* this.#ripened());
    } finally {
      evictor.drain.keepFreed(0);
    }
  }

  *#ripened(): Operation<boolean> {
    return yield* this.#alone(() => this.#attachment.pool.ripening());
  }

  /**
   * If a table is full and its index lacks memory for another one: evicts a record of that table,
   * and owes a chunk, which the next writes pay for. Once that chunk is free, their tables can be
   * split. If nothing was evicted, another write in flight has made room there, or taken it. So the
   * write is tried again in any case, and often enough for the last of many that want this room.
   */
  *#evictInTable(tried: ReclaimProgress): Operation<boolean> {
    const { request, lacking } = tried;
    if (request === undefined || !this.#isOfTable(lacking)) return false;
    const evictor = this.#evictor as Evictor;
    if (!evictor.canEvictInTable) return false;
    if ((yield* evictor.evictInTable(request)) && !evictor.drain.owes) evictor.drain.owe();
    if (tried.evictionsInTable++ < EVICTIONS_IN_TABLE_MAX) tried.steps--;
    return true;
  }

  /** Evicts the records of an old table, for its block to serve this write or a later one. */
  *#emptyOldTable(tried: ReclaimProgress): Operation<boolean> {
    const { request, lacking } = tried;
    if (request === undefined || !lacking || this.#isOfRecords(lacking)) return false;
    const evictor = this.#evictor as Evictor;
    // On one machine a call inside that write, from a callback, would wait for itself.
    const mayWait = this.#attachment.width > 1;
    if (mayWait && this.#emptier !== undefined) return yield* this.#waitForTable(tried);
    if (!evictor.mayEmptyTable) return false;
    const areYoung = yield* evictor.areYoungBeside(request);
    // Others have made room in its table since.
    if (areYoung === undefined) return true;
    if (!areYoung) return false;
    if (this.#emptier !== undefined) return mayWait && (yield* this.#waitForTable(tried));
    this.#emptier = tried;
    let cameFree = false;
    try {
      const isThere = yield* evictor.oldTables.empty(request, lacking);
      cameFree = isThere && (yield* this.#ripened());
    } finally {
      if (!cameFree) this.ended(tried);
    }
    return cameFree;
  }

  /**
   * Waits until the write for which another operation empties a table has split its own: most
   * writes in flight have found the same table full. Otherwise they would take the block from each
   * other, and all fail again.
   */
  *#waitForTable(tried: ReclaimProgress): Operation<boolean> {
    yield* this.#waitForEmptier();
    // Next time it may be this write that has to empty one.
    if (tried.tableWaits++ < TABLE_WAITS_MAX) tried.steps--;
    return true;
  }

  *#waitForEmptier(): Operation<void> {
    const turn = new Batch().pause(0, new Scratch(8));
    for (let turns = 0; turns < TURNS_MAX && this.#emptier !== undefined; turns++) yield turn;
  }

  #isOfTable(lacking: Lacking | undefined): boolean {
    return lacking !== undefined && !this.#isOfRecords(lacking);
  }

  /** Has the index free evicted records that wait for a merge, until the write has a block. */
  *#release(lacking: Lacking): Operation<boolean> {
    for (let releases = 0; releases < RELEASES_MAX; releases++) {
      if (!(yield* this.#alone(() => this.#releaseSome()))) return false;
      if (yield* this.#ripenFor(lacking)) return true;
    }
    return false;
  }

  *#releaseSome(): Operation<boolean> {
    yield* this.#attachment.pool.reclamation.quiesce();
    const compacted = yield* this.#index.compact?.() ?? [];
    return compacted !== undefined && compacted > 0;
  }

  #isOfRecords({ catalog, units }: Lacking): boolean {
    const { records } = this.#index;
    const isOwn = catalog === records.catalog;
    return isOwn && units <= BLOCK_UNITS_MAX && !records.tableUnits().includes(units);
  }

  /**
   * Lets the write take chunks of the reserve, and owes as many. If the reserve is too small,
   * evicts all records of a chunk at once. A record of several blocks may need a chunk for each
   * size, and the index one for its tables. It needs them together: a write that got only some of
   * them fails and gives them back. So each further attempt may take one more chunk. The first
   * attempt drains no chunk where evicting one record may be enough: see `#evictInTable`.
   */
  *#drain(tried: ReclaimProgress): Operation<boolean> {
    const { request, lacking } = tried;
    const drains = tried.drains++;
    const { allocator, chunks } = this.#attachment.pool;
    const { drain, canEvictInTable } = this.#evictor as Evictor;
    if (this.#isOfTable(lacking) && !(yield* drain.canPay())) return false;
    yield* this.#reclaim();
    const wanted = drains + (request ? chunksFor(request.keyBytes, request.record.valueBytes) : 1);
    const isThere = () => chunks.hasMoreThan(wanted - 1, true);
    const spares = yield* inSection(this.#attachment, isThere);
    // Set only now: a section claims blocks ahead, which would take these chunks.
    allocator.reserveAllowed = wanted;
    if (spares) {
      for (let i = 0; i < wanted; i++) drain.owe();
      return true;
    }
    if (drains === 0 && canEvictInTable && this.#isOfTable(lacking)) return false;
    for (let drained = 0; drained < wanted; drained++) {
      if (!(yield* this.#canUseEvicted())) return drained > 0;
      if ((yield* drain.drainOne()) === 0) return drained > 0;
      yield* this.#reclaim();
      if (yield* inSection(this.#attachment, isThere)) break;
    }
    return true;
  }

  /** False while evicted memory cannot be reused: more evictions would only empty the store. */
  *#canUseEvicted(): Operation<boolean> {
    const { reclamation } = this.#attachment.pool;
    if (reclamation.retired === 0 || (yield* this.#reclaim())) return true;
    return reclamation.lagging.length === 0;
  }

  /** Frees what this client has retired. Returns whether the write now finds what it lacks. */
  *#ripenFor(lacking: Lacking | undefined): Operation<boolean> {
    if (lacking === undefined || lacking.units > BLOCK_UNITS_MAX) return false;
    const { catalog, units, count } = lacking;
    const { pool } = this.#attachment;
    if (pool.reclamation.waitingOf(catalog, units) > 0) yield* this.#ripened();
    return pool.allocator.sizeClass(catalog, units).cache.length >= count;
  }

  *#makeRoomToRemove(): Operation<boolean> {
    return (yield* this.#reclaim()) || (yield* this.#sweep('deletion'));
  }

  *#reclaim(): Operation<boolean> {
    return yield* this.#alone(() => this.#attachment.pool.reclaiming());
  }

  /** Runs a step between this client's operations; false inside a callback, where it cannot be. */
  *#alone(step: () => Operation<boolean>): Operation<boolean> {
    return (yield* this.#attachment.exclusive(step)) ?? false;
  }

  /**
   * Whether a sweep may free something that evictions do not. It is expensive: it walks the whole
   * index in one epoch, and all other clients wait for that epoch.
   */
  *#hasLost(): Operation<boolean> {
    if (!this.#evictor?.store.evicts || this.#index.compact !== undefined) return true;
    yield* this.#recover();
    for (const { unswept } of yield* this.#attachment.pool.catalog.entries()) {
      if (unswept > 0) return true;
    }
    return false;
  }

  *#sweep(kind: WriteKind): Operation<boolean> {
    const { pool } = this.#attachment;
    yield* this.#recover();
    if (!(yield* this.#vain.mayBring(kind))) return false;
    // A store that evicts always needs the blocks of deleted records freed.
    const forDeletion = kind === 'deletion' || this.#evictor?.store.evicts === true;
    const sweeping = () => sweep(pool, this.#index, forDeletion);
    const brought = yield* this.#attachment.exclusive(sweeping);
    // Inside a callback no sweep ran, so this says nothing about sweeps.
    if (brought === undefined) return false;
    publish('sweep', () => ({ store: this.#store, brought }));
    if (brought > 0) this.#evictor?.drain.noteSweep();
    yield* this.#vain.note(kind, brought);
    // Chunks that the sweep emptied can serve other sizes.
    if (brought > 0) yield* this.#reclaim();
    return brought > 0;
  }

  /** Cleans up after dead clients: what they have left may be enough. */
  *#recover(): Operation<void> {
    const now = performance.now();
    const { pool, width } = this.#attachment;
    if (width > 1 && now - this.#recoveredAt < RECOVERY_INTERVAL_MS) return;
    this.#recoveredAt = now;
    yield* this.#attachment.exclusive(() => pool.recovering(() => true));
  }
}

/** Chunks that the blocks of a record take when no block of their sizes is free. */
function chunksFor(keyBytes: number, valueBytes: number): number {
  if (fitsOneBlock(keyBytes, valueBytes)) return 1;
  const { headUnits, pieces } = planChain(keyBytes, valueBytes);
  const blocks = new Map([[classOfHead(headUnits), 1]]);
  for (const { units } of pieces) blocks.set(units, (blocks.get(units) ?? 0) + 1);
  let chunks = 0;
  for (const [units, count] of blocks) chunks += Math.ceil(count / blocksPerChunk(units));
  return chunks;
}

const SWEEP_INTERVAL_MS = 1000;

/** A sweep that freed nothing, and the state of the pool after it. */
interface VainSweep {
  at: number;
  freed: number;
  reusable: number;
  epoch: number;
  /** How many sweeps in a row freed nothing, each within the interval after the one before. */
  inARow: number;
}

/**
 * After a sweep that freed nothing, decides whether another one is worth its walk of the whole
 * store. Kept for each kind of write: a sweep that freed no memory for a write may still make room
 * for a deletion in the index; see `Index.compact`.
 */
class VainSweeps {
  readonly #pool: Pool;
  readonly #last: { [kind in WriteKind]?: VainSweep } = {};

  constructor(pool: Pool) {
    this.#pool = pool;
  }

  /**
   * True after an interval. Sooner if this client has freed something, if chunks came free, or if
   * other clients have retired blocks, which the epoch shows: it advances with every hundred or so.
   * Sweeps that free nothing advance it too, so clients that all find the pool full would make each
   * other sweep with each write. Therefore each such sweep doubles the epochs to wait for.
   */
  *mayBring(kind: WriteKind): Operation<boolean> {
    const vain = this.#last[kind];
    if (vain === undefined || Date.now() - vain.at >= SWEEP_INTERVAL_MS) return true;
    const { freed, reusable, epoch } = yield* this.#look();
    if (freed !== vain.freed || reusable !== vain.reusable) return true;
    return epoch - vain.epoch >= EPOCHS_TO_RIPEN * 2 ** vain.inARow;
  }

  /** Notes how many blocks and chunks a sweep has brought back. */
  *note(kind: WriteKind, brought: number): Operation<void> {
    const before = this.#last[kind];
    this.#last[kind] = undefined;
    if (brought > 0) return;
    const at = Date.now();
    const follows = before !== undefined && at - before.at < SWEEP_INTERVAL_MS;
    const inARow = follows ? before.inARow + 1 : 1;
    this.#last[kind] = { at, inARow, ...(yield* this.#look()) };
  }

  *#look(): Operation<Pick<VainSweep, 'freed' | 'reusable' | 'epoch'>> {
    const { freed } = this.#pool.allocator;
    const reusable = Number(yield* control.load(SUPERBLOCK.chunkNews));
    return { freed, reusable, epoch: Number(yield* control.load(SUPERBLOCK.epoch)) };
  }
}
