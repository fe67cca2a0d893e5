import { invariant, StepwellError } from '../../errors.ts';
import {
  LOCK_HELD,
  LOCK_NEEDLESS,
  LOCK_REFUSED,
  LOCK_TAKEN,
} from '../../fabrics/shared/file-locks.ts';
import type { Address, Operation } from '../../verbs/index.ts';
import type { Clock } from '../clock.ts';
import { control, packFields, unpackFields } from '../control.ts';
import { CATALOG_ENTRIES, CLIENT_ENTRY_BYTES, type PoolLayout } from '../layout.ts';
import { type ClientFigures, figuresIn } from './meter.ts';
import type { RowLocks } from './row-locks.ts';
import {
  currentThread,
  endProcess,
  type Liveness,
  livenessOf,
  NAMESPACE_BITS,
  NETWORK_NAMESPACE,
  statReader,
  type ThreadIdentity,
} from './thread-identity.ts';

/** Words of a client's row, by byte offset. */
const STATE = 0;
const START_TIME = 8;
/** Boot 32 | process id 32. */
const MACHINE = 16;
export const EPOCH = 24;
export const LIMBO_FLOOR = 32;
const ATTACHED_AT = 40;
const NAME = 64;
/** A bit for each store whose memory this client may touch: see OpenStores. */
const STORES = 96;
export const CLIENT_NAME_BYTES = 32;

const FREE = 0;
const JOINING = 1;
const LIVE = 2;
/** The thread in the word is the one that cleans up after the dead one. */
const RECOVERING = 3;

/**
 * State, incarnation, pid namespace, thread id, and whether the client has the row's lock. So one
 * CAS says which client holds a row, even before the rest of the row is written. A thread id is
 * unique only within its namespace.
 */
const STATE_FIELDS = [2, 16, NAMESPACE_BITS, 22, 1] as const;
/** A free row may still be locked for a moment, while a client leaves it or fails to join in it. */
const JOIN_ATTEMPTS = 5;
const JOIN_PAUSE_MICROSECONDS = 1000;
const CLAIM_PAUSE_MICROSECONDS = 1000;

export interface ClientRow {
  id: number;
  /** Whether the row is LIVE: only then is it completely written. */
  live: boolean;
  isFree: boolean;
  incarnation: number;
  /** Whether its client has the row's lock (row-locks.ts), as long as it lives. */
  locked: boolean;
  thread: ThreadIdentity;
  epoch: number;
  limboFloor: number;
  attachedAt: number;
  name: string;
  /** A bit for each store that the client may touch, by its row of the catalog from 1 on. */
  stores: bigint;
  /** What the client has published about its operations. */
  figures: ClientFigures | undefined;
  /** The state word as read, for a CAS. */
  word: bigint;
}

/**
 * Tells whether a network client can still issue verbs. The memory nodes hold the locks of such
 * clients' rows.
 */
export interface Registrar extends RowLocks {
  /**
   * Whether no memory node executes a verb of the session any more. If some nodes have lost the
   * session, revokes it at the others. With `tagOnly` the number is a tag that several sessions may
   * share: then it revokes nothing.
   */
  isGone(session: number, tagOnly: boolean): Operation<boolean>;
  /** Afterwards no memory node executes a verb of the session any more. */
  revoke(session: number): Operation<void>;
}

/** The client table: which clients are attached, and which of them are gone. */
export class Membership {
  readonly #layout: PoolLayout;
  readonly #clock: Pick<Clock, 'now'>;
  readonly #statOf = statReader();
  readonly thread: ThreadIdentity;
  /** 0 before joining and after leaving. */
  id = 0;
  incarnation = 0;
  #ownWord = 0n;
  #ownStores = 0n;
  readonly #registrar: Registrar | undefined;
  readonly #locks: RowLocks | undefined;
  /** Rows whose lock this client has: its own, and those that it cleans up. */
  readonly #locked = new Set<number>();
  #refused = false;

  constructor(
    layout: PoolLayout,
    clock: Pick<Clock, 'now'>,
    thread = currentThread(),
    registrar?: Registrar,
    locks?: RowLocks,
  ) {
    this.#layout = layout;
    this.#clock = clock;
    this.thread = thread;
    this.#registrar = registrar;
    this.#locks = locks;
  }

  get clientsMax(): number {
    return this.#layout.parameters.clientsMax;
  }

  get epochWord(): Address {
    return this.#layout.clientEntry(this.id) + EPOCH;
  }

  /** Takes a row. JOINING already names the thread, so that a row of a dead joiner can be freed. */
  *join(name: string): Operation<void> {
    invariant(this.id === 0, 'a client joins twice');
    for (let attempt = 1; attempt <= JOIN_ATTEMPTS; attempt++) {
      const free = (yield* this.rows(true)).filter(({ isFree }) => isFree);
      for (const row of free) if (yield* this.#joinAt(row, name)) return;
      if (free.length === 0) break;
      if (attempt === JOIN_ATTEMPTS) throw lockedElsewhere();
      yield* control.pause(JOIN_PAUSE_MICROSECONDS);
    }
    throw new StepwellError(
      'SW_TOO_MANY_CLIENTS',
      `all ${this.#layout.parameters.clientsMax} rows of the client table are taken; ` +
        'a thread takes one for each pool: end some (stepwell inspect lists them), ' +
        'or take the pool into one with more (stepwell copy URL NEW --max-clients N)',
    );
  }

  /** False when another client was faster. */
  *#joinAt(row: ClientRow, name: string): Operation<boolean> {
    const { id } = row;
    const lock = yield* this.#lock(id);
    if (lock === LOCK_HELD) return false;
    this.#refused = lock === LOCK_REFUSED;
    const incarnation = (row.incarnation + 1) & 0xffff;
    const address = this.#layout.clientEntry(id);
    const joining = this.#stateWord(JOINING, incarnation, id);
    if (!(yield* control.swap(address, row.word, joining))) {
      yield* this.#unlock(id);
      return false;
    }
    yield* this.#writeRow(address, name);
    const live = this.#stateWord(LIVE, incarnation, id);
    if (!(yield* control.swap(address, joining, live))) {
      throw new StepwellError('SW_CONTENTION', 'this client was declared dead while joining');
    }
    this.id = id;
    this.incarnation = incarnation;
    this.#ownWord = live;
    return true;
  }

  *#lock(row: number): Operation<number> {
    if (this.#locks === undefined) return LOCK_NEEDLESS;
    const outcome = yield* this.#locks.take(row);
    if (outcome === LOCK_TAKEN) this.#locked.add(row);
    return outcome;
  }

  /** Call after the row has changed: until then it says that a client has the lock. */
  *#unlock(row: number): Operation<void> {
    if (this.#locks !== undefined && this.#locked.delete(row)) yield* this.#locks.release(row);
  }

  *leave(): Operation<void> {
    const address = this.#layout.clientEntry(this.id);
    yield* control.store(address + EPOCH, 0n);
    yield* control.store(address + LIMBO_FLOOR, 0n);
    yield* control.store(address + STORES, 0n);
    this.#ownStores = 0n;
    yield* control.swap(address, this.#ownWord, freeWord(this.incarnation));
    yield* this.#unlock(this.id);
    this.id = 0;
  }

  /** Rows in use; with `all`, every row of the table. */
  *rows(all = false): Operation<ClientRow[]> {
    const rows: ClientRow[] = [];
    const { clientsMax } = this.#layout.parameters;
    const perRead = 32;
    for (let first = 1; first <= clientsMax; first += perRead) {
      const count = Math.min(perRead, clientsMax - first + 1);
      const view = yield* control.readView(
        this.#layout.clientEntry(first),
        count * CLIENT_ENTRY_BYTES,
      );
      for (let i = 0; i < count; i++) {
        const at = i * CLIENT_ENTRY_BYTES;
        // The lowest of STATE_FIELDS.
        const state = view.getUint8(at + STATE) & 3;
        if (all || state !== FREE) rows.push(this.#parse(first + i, view, at));
      }
    }
    return rows;
  }

  /** The row that a word of the pool names, whatever its state. Raises SW_POOL_CORRUPT. */
  *rowNamed(id: number): Operation<ClientRow> {
    const inTable = id >= 1 && id <= this.clientsMax;
    invariant(inTable, `a word names client ${id} of ${this.clientsMax}`);
    return yield* this.#row(id);
  }

  /** Judges by the row as given, without reading it again. */
  liveness(row: ClientRow): Liveness {
    if (row.thread.namespace === NETWORK_NAMESPACE) return 'unknown';
    return livenessOf(row.thread, this.thread, this.#statOf);
  }

  /**
   * Whether the row's client cannot issue verbs any more: its session was revoked, or its thread is
   * gone, or the lock of its row is free.
   */
  *isGone(row: ClientRow): Operation<boolean> {
    if (row.thread.namespace === NETWORK_NAMESPACE && this.#registrar) {
      const again = yield* this.#again(row);
      if (again === undefined) return false;
      const { tid, startTime } = again.thread;
      return yield* this.#registrar.isGone(again.live ? startTime : tid, !again.live);
    }
    if (this.liveness(row) === 'gone') {
      const again = yield* this.#again(row);
      if (again === undefined || this.liveness(again) === 'gone') return again !== undefined;
    }
    return yield* this.#lostLock(row);
  }

  /** The rows whose clients may issue verbs. */
  *living(rows: readonly ClientRow[]): Operation<ClientRow[]> {
    const living: ClientRow[] = [];
    for (const row of rows) if (!(yield* this.isGone(row))) living.push(row);
    return living;
  }

  /** Reads the row last, because a living client frees its row before it releases the lock. */
  *#lostLock(row: ClientRow): Operation<boolean> {
    if (!row.locked || this.#locks === undefined) return false;
    if (yield* this.#locks.isTaken(row.id)) return false;
    return (yield* this.#again(row)) !== undefined;
  }

  /**
   * Reads the row again; undefined if its state word has changed. The words of one READ may be of
   * different times. But beside a LIVE word that was seen before, the row is complete.
   */
  *#again(row: ClientRow): Operation<ClientRow | undefined> {
    const again = yield* this.#row(row.id);
    return again.word === row.word ? again : undefined;
  }

  *#row(id: number): Operation<ClientRow> {
    const view = yield* control.readView(this.#layout.clientEntry(id), CLIENT_ENTRY_BYTES);
    return this.#parse(id, view, 0);
  }

  /**
   * Whether this client can never learn that the row's client is gone. Such a client has no lock,
   * and attached in another way (by a mapped file or a network) or from another pid namespace.
   */
  isOutOfSight(row: ClientRow): boolean {
    if (row.locked && this.#locks !== undefined) return false;
    if (row.thread.namespace === NETWORK_NAMESPACE) return this.#registrar === undefined;
    return this.liveness(row) === 'unknown';
  }

  /**
   * Why other clients might never learn of this client's death; undefined if all of them would.
   * Known as soon as it has joined.
   */
  get blindness(): string | undefined {
    if (this.#locks !== undefined && !this.#refused) return undefined;
    const { tid, namespace } = this.thread;
    if (namespace === NETWORK_NAMESPACE) return undefined;
    // On Linux clients may be in different pid namespaces.
    if (this.#refused && (tid === 0 || process.platform === 'linux')) {
      return 'the file system of the pool refuses locks of open files (F_OFD_SETLK)';
    }
    return tid === 0 ? 'this system does not tell which threads are gone' : undefined;
  }

  /**
   * Makes sure, if possible, that a client that has stopped issues no more verbs. Revokes the
   * session of a network client; kills a process of this machine, if `mayBeKilled`. `isGone` then
   * tells whether it worked.
   */
  *fence(row: ClientRow, mayBeKilled: boolean): Operation<void> {
    if (!row.live) return;
    const again = yield* this.#again(row);
    if (again === undefined) return;
    if (again.thread.namespace !== NETWORK_NAMESPACE) {
      if (mayBeKilled) endProcess(again.thread, this.thread);
    } else if (this.#registrar) {
      yield* this.#registrar.revoke(again.thread.startTime);
    }
  }

  /** Whether this client's row names the store. */
  names(catalog: number): boolean {
    return (this.#ownStores & bitOf(catalog)) !== 0n;
  }

  /** Names a store in this client's row, or takes it away. */
  *nameStore(catalog: number, named: boolean): Operation<void> {
    const others = this.#ownStores & ~bitOf(catalog);
    this.#ownStores = named ? others | bitOf(catalog) : others;
    yield* control.store(this.#layout.clientEntry(this.id) + STORES, this.#ownStores);
  }

  /** Rows that name the store, perhaps this client's own and those of dead clients. */
  *holdersOf(catalog: number): Operation<ClientRow[]> {
    const rows = yield* this.rows();
    return rows.filter(({ stores }) => (stores & bitOf(catalog)) !== 0n);
  }

  /** All stores that rows name. */
  *namedStores(): Operation<Set<number>> {
    return new Set((yield* this.rows()).flatMap(({ stores }) => [...storesIn(stores)]));
  }

  *holdsRow(): Operation<boolean> {
    if (this.id === 0) return false;
    return this.isOwnState(yield* control.load(this.#layout.clientEntry(this.id)));
  }

  /** Whether a state word is this client's, LIVE: no client has declared it dead. */
  isOwnState(word: bigint): boolean {
    return BigInt.asUintN(64, word) === this.#ownWord;
  }

  /**
   * Claims the clean-up after a dead client. Exactly one claimant wins; if that one dies, too, its
   * thread is named in the row, and the next claimant takes over.
   */
  *claimRecovery(row: ClientRow): Operation<boolean> {
    invariant(row.id !== this.id && !row.isFree, 'there is no dead client in this row');
    const address = this.#layout.clientEntry(row.id);
    // The lock may be held by another client that is about to claim the row, or by a descriptor
    // that a terminated thread has left behind. In the second case this client goes on without the
    // lock.
    if ((yield* this.#lock(row.id)) === LOCK_HELD) yield* control.pause(CLAIM_PAUSE_MICROSECONDS);
    const recovering = this.#stateWord(RECOVERING, row.incarnation, row.id);
    const isClaimed = yield* control.swap(address, row.word, recovering);
    if (!isClaimed) yield* this.#unlock(row.id);
    return isClaimed;
  }

  *finishRecovery(row: ClientRow): Operation<void> {
    const address = this.#layout.clientEntry(row.id);
    yield* this.#clear(address + EPOCH);
    yield* this.#clear(address + LIMBO_FLOOR);
    // Last, because the memory of a dropped store may be reused after this.
    yield* this.#clear(address + STORES);
    const recovering = this.#stateWord(RECOVERING, row.incarnation, row.id);
    yield* control.swap(address, recovering, freeWord(row.incarnation));
    yield* this.#unlock(row.id);
  }

  /**
   * By CAS, because a recoverer that was itself declared dead must not clear the next client's
   * word.
   */
  *#clear(address: Address): Operation<void> {
    const value = yield* control.load(address);
    if (value !== 0n) yield* control.swap(address, value, 0n);
  }

  #stateWord(state: number, incarnation: number, row: number): bigint {
    const { namespace, tid } = this.thread;
    const lock = this.#locked.has(row) ? 1 : 0;
    return packFields([state, incarnation, namespace, tid, lock], STATE_FIELDS);
  }

  /** Writes the row except epoch, floor and stores, which are 0 in a free row. */
  *#writeRow(address: Address, name: string): Operation<void> {
    const identity = new DataView(new ArrayBuffer(16));
    identity.setBigUint64(0, BigInt(this.thread.startTime), true);
    identity.setUint32(8, this.thread.boot, true);
    identity.setUint32(12, this.thread.pid, true);
    yield* control.writeBytes(address + START_TIME, new Uint8Array(identity.buffer));
    const label = new Uint8Array(STORES - ATTACHED_AT);
    new DataView(label.buffer).setBigUint64(0, BigInt(this.#clock.now()), true);
    new TextEncoder().encodeInto(name, label.subarray(NAME - ATTACHED_AT));
    yield* control.writeBytes(address + ATTACHED_AT, label);
  }

  #parse(id: number, view: DataView, at: number): ClientRow {
    const word = view.getBigUint64(at + STATE, true);
    const [state, incarnation, namespace, tid, lock] = unpackFields(word, STATE_FIELDS);
    const locked = lock === 1;
    const name = new Uint8Array(view.buffer, view.byteOffset + at + NAME, CLIENT_NAME_BYTES);
    const live = state === LIVE;
    return {
      id,
      live,
      isFree: state === FREE,
      incarnation,
      locked,
      thread: {
        pid: live ? view.getUint32(at + MACHINE + 4, true) : tid,
        tid,
        // A row that is not LIVE may be unwritten; it names a thread of this boot.
        startTime: live ? Number(view.getBigUint64(at + START_TIME, true)) : 0,
        // No lock outlives its boot, and a container may be given a boot id of its own.
        boot: live && !locked ? view.getUint32(at + MACHINE, true) : this.thread.boot,
        namespace,
      },
      epoch: Number(view.getBigUint64(at + EPOCH, true)),
      limboFloor: Number(view.getBigUint64(at + LIMBO_FLOOR, true)),
      attachedAt: Number(view.getBigUint64(at + ATTACHED_AT, true)),
      stores: view.getBigUint64(at + STORES, true),
      name: name[0] === 0 ? '' : nameIn(name),
      figures: live ? figuresIn(view, at) : undefined,
      word,
    };
  }
}

function nameIn(bytes: Uint8Array): string {
  const end = bytes.indexOf(0);
  return new TextDecoder().decode(end === -1 ? bytes : bytes.subarray(0, end));
}

function lockedElsewhere(): StepwellError {
  const why = 'processes that are not clients hold the locks of all free rows of the client table';
  const remedy =
    'end those that clients forked, and keep the pool on a local file system (/proc/locks)';
  return new StepwellError('SW_TOO_MANY_CLIENTS', `${why}: ${remedy}`);
}

function freeWord(incarnation: number): bigint {
  return packFields([FREE, incarnation], STATE_FIELDS);
}

/** The stores that a row's word names. */
export function storesIn(word: bigint): number[] {
  const named: number[] = [];
  for (let catalog = 1; catalog <= CATALOG_ENTRIES; catalog++) {
    if ((word & bitOf(catalog)) !== 0n) named.push(catalog);
  }
  return named;
}

function bitOf(catalog: number): bigint {
  invariant(catalog >= 1 && catalog <= CATALOG_ENTRIES, 'a row of a client names no such store');
  return 1n << BigInt(catalog - 1);
}
