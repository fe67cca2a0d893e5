import { invariant, StepwellError } from '../../errors.ts';
import {
  type Address,
  Batch,
  NULL_ADDRESS,
  type Operation,
  Scratch,
  swapped,
} from '../../verbs/index.ts';
import { isGone } from '../clients/client-word.ts';
import type { ClientRow, Membership } from '../clients/membership.ts';
import { CHUNK_BYTES, INTENT_BYTES, INTENTS_PER_CLIENT, type PoolLayout } from '../layout.ts';
import { fullError } from '../memory/chunk-memory.ts';
import { FIRST_LEAF, HEAD_BYTES, Intent, SECOND_LEAF } from './intent.ts';
import { type IntentSlots, NO_SLOT } from './intent-slots.ts';
import {
  clientOf,
  freeHigh,
  IDENTITY_AT,
  isLocked,
  isSame,
  LOCK_BYTES,
  nodeOf,
  OWNER_AT,
  slotOf,
  type Word,
} from './lock-word.ts';

const WAIT_MICROSECONDS = 200;
/** Polls of a recovery until another client's repair has ended. */
const REPAIR_POLLS_MAX = 5000;

/** What repairs need of a pool. */
export interface RepairPool {
  readonly layout: PoolLayout;
  readonly membership: Membership;
  readonly intents: IntentSlots;
}

/** A leaf's lock: its owner was read first, then its identity. */
interface Lock {
  owner: Word;
  identity: Word;
}

/** Finishes what dead clients were about to do under locks. */
export class Repairs {
  readonly #pool: RepairPool;

  constructor(pool: RepairPool) {
    this.#pool = pool;
  }

  /**
   * Completes what a dead client was about to do under the lock at `address`, or finds that it had
   * not begun. `word` was read there, and its client is gone. Afterwards the caller must read the
   * lock again: the word has changed, or another client is repairing the leaf.
   *
   * Crashes. Before the copy's WRITE and CAS: nothing has changed. After them: the first leaf's
   * word leads to the copy, which holds the same writes, so the next client goes on from there. The
   * second leaf still has the dead client's word, which the copy names. After some of the writes:
   * they are done again, and each stores what it stored before.
   */
  *repair(address: Address, word: Word): Operation<void> {
    invariant(isLocked(word.high), 'a leaf is repaired that no client has locked');
    const intent = yield* this.#readIntent(address, word);
    if (intent === undefined) return;
    if (!intent.isWholeOf(word) || !intent.names(address)) {
      yield* this.#releaseUntouched(address, word);
      return;
    }
    const first = intent.leaf(FIRST_LEAF);
    if (first === address) yield* this.takeOver(intent, word);
    else yield* this.repairFirst(first, intent);
  }

  /**
   * The intent in the slot that a word names. Undefined when the lock has another word by now.
   * While it has this word, the dead client's row is not reused, so the slot is still its own.
   */
  *#readIntent(address: Address, word: Word): Operation<Intent | undefined> {
    const intent = new Intent();
    const slot = yield* this.#locate(word);
    const owner = new Scratch(8);
    yield new Batch().read(slot, INTENT_BYTES, intent.memory, 0).read(address, 8, owner, 0);
    if (intent.block !== NULL_ADDRESS && isSame(intent.own, word)) {
      const { block, length } = intent;
      invariant(length <= CHUNK_BYTES, `an intent of ${length} bytes`);
      intent.ensure(HEAD_BYTES + length);
      yield new Batch()
        .read(slot, HEAD_BYTES, intent.memory, 0)
        .read(block, length, intent.memory, HEAD_BYTES)
        .read(address, 8, owner, 0);
    }
    return isSame(wordAt(owner, 0), word) ? intent : undefined;
  }

  /** The slot that a lock names. Raises SW_POOL_CORRUPT. */
  *#locate(word: Word): Operation<Address> {
    const row = clientOf(word) & 0xfff;
    const [node, slot] = [nodeOf(word), slotOf(word)];
    const { layout, intents } = this.#pool;
    const { clientsMax } = layout.parameters;
    const isInPool = row >= 1 && row <= clientsMax && node < layout.stripe;
    const isSlot = isInPool && slot < INTENTS_PER_CLIENT;
    const address = isSlot ? yield* intents.locate(node, row, slot) : NULL_ADDRESS;
    invariant(address !== NULL_ADDRESS, `a lock names slot ${slot} of row ${row} on node ${node}`);
    return address;
  }

  /**
   * Releases a lock whose intent is not whole: nothing was written, because the intent comes first.
   */
  *#releaseUntouched(address: Address, word: Word): Operation<void> {
    const { owner, identity } = yield* readLock(address);
    if (!isSame(owner, word)) return;
    invariant(identity.low !== 0 || identity.high !== 0, `a leaf at ${address} has no identity`);
    const words = new Scratch(24);
    setWords(words, word, { low: identity.low, high: freeHigh(identity.high) });
    yield new Batch().cas(address + OWNER_AT, words, 0);
  }

  /**
   * D[WRITE copy into an own slot; CAS owner of the first leaf] -> the writes.
   *
   * If a batch fails, the lock may name the copy, so the slot must not be used for another repair.
   */
  *takeOver(intent: Intent, word: Word): Operation<void> {
    const { layout, intents } = this.#pool;
    const slot = intents.takeForRepair();
    if (slot === NO_SLOT) return yield* pause();
    const first = intent.leaf(FIRST_LEAF);
    const node = layout.nodeOf(first);
    const ticket = intents.nextTicket(slot);
    const own = { low: intents.wordLow(ticket, node, slot), high: intents.wordHigh(ticket) };
    invariant(clientOf(own) !== clientOf(word), 'a client repairs what it has locked itself');
    const words = new Scratch(24);
    setWords(words, word, own);
    const batch = new Batch();
    intent.postCopy(intents.address(node, slot), batch, own.low, own.high);
    yield batch.cas(first + OWNER_AT, words, 0);
    if (swapped(words, 0)) yield* this.#redo(intent);
    intents.give(slot);
  }

  /**
   * Repeats the writes to the first leaf, which this client holds now, and those to the second leaf
   * if that still has the intent's owner word. If not, it was released, and another client may hold
   * it.
   */
  *#redo(intent: Intent): Operation<void> {
    const second = intent.leaf(SECOND_LEAF);
    let holdsSecond = false;
    if (second !== NULL_ADDRESS)
      holdsSecond = isSame((yield* readLock(second)).owner, intent.other);
    const batch = new Batch();
    intent.postWrites(batch, (leaf) => leaf === FIRST_LEAF || holdsSecond);
    yield batch;
  }

  /** For an intent found at its second leaf: repairs from the first leaf, if its holder is dead. */
  *repairFirst(first: Address, intent: Intent): Operation<void> {
    const { owner, identity } = yield* readLock(first);
    if (!isSame(identity, intent.identity(FIRST_LEAF)) || !isLocked(owner.high)) return;
    if (yield* isGone(this.#pool.membership, clientOf(owner))) yield* this.repair(first, owner);
    else yield* pause();
  }

  /**
   * Runs before a dead client's row is reused. Afterwards every intent in its slots is done or was
   * never whole, and no repair of one is under way. So no lock names the row any more, and no sweep
   * frees a block that an intent has yet to link. Only a client that holds no lock may call this.
   * False if there is an intent to repair and this client has no slot to do so.
   */
  *settleRow(row: ClientRow): Operation<boolean> {
    for (const head of yield* this.#readHeads(row.id)) {
      if ((yield* this.#unsettledOwner(head)) === undefined) continue;
      if (!(yield* this.#canRepair())) return false;
      yield* this.#settle(head);
    }
    return true;
  }

  /** A joining client has no row, so no slots; and the pool may have no memory for slots. */
  *#canRepair(): Operation<boolean> {
    const { membership, intents } = this.#pool;
    if (membership.id === 0) return false;
    try {
      yield* intents.open();
      return true;
    } catch (error) {
      fullError(error);
      return false;
    }
  }

  /** The heads of a row's slots that name a lock. */
  *#readHeads(id: number): Operation<Intent[]> {
    const { layout, intents } = this.#pool;
    const batch = new Batch();
    const heads: Intent[] = [];
    for (let node = 0; node < layout.stripe; node++) {
      const first = yield* intents.locate(node, id, 0);
      if (first === NULL_ADDRESS) continue;
      for (let slot = 0; slot < INTENTS_PER_CLIENT; slot++) {
        const head = new Intent();
        batch.read(first + slot * INTENT_BYTES, HEAD_BYTES, head.memory, 0);
        heads.push(head);
      }
    }
    if (batch.length > 0) yield batch;
    return heads.filter(
      (head) =>
        isLocked(head.own.high) &&
        (clientOf(head.own) & 0xfff) === id &&
        head.leaf(FIRST_LEAF) !== NULL_ADDRESS,
    );
  }

  *#settle(head: Intent): Operation<void> {
    const first = head.leaf(FIRST_LEAF);
    for (let poll = 0; poll < REPAIR_POLLS_MAX; poll++) {
      const owner = yield* this.#unsettledOwner(head);
      if (owner === undefined) return;
      if (yield* isGone(this.#pool.membership, clientOf(owner))) yield* this.repair(first, owner);
      else yield* pause();
    }
    const client = clientOf((yield* readLock(first)).owner) & 0xfff;
    const dead = clientOf(head.own) & 0xfff;
    const what = `client ${client} is alive and repairs what client ${dead} left`;
    const why = `${what}, but made no progress for a second: continue or kill it`;
    throw new StepwellError('SW_CONTENTION', why);
  }

  /**
   * The owner of an intent's first leaf: the intent's own operation, or a client that repairs it.
   * Undefined if neither holds the lock any more.
   */
  *#unsettledOwner(head: Intent): Operation<Word | undefined> {
    const { owner, identity } = yield* readLock(head.leaf(FIRST_LEAF));
    if (!isSame(identity, head.identity(FIRST_LEAF)) || !isLocked(owner.high)) return undefined;
    if (isSame(owner, head.own)) return owner;
    return (yield* this.#isCopyOf(owner, head.other)) ? owner : undefined;
  }

  /** Whether the lock's holder repairs the operation that had the word `other`. */
  *#isCopyOf(owner: Word, other: Word): Operation<boolean> {
    const head = new Intent();
    const slot = yield* this.#locate(owner);
    yield new Batch().read(slot, HEAD_BYTES, head.memory, 0);
    return isSame(head.own, owner) && isSame(head.other, other);
  }
}

function* readLock(address: Address): Operation<Lock> {
  const words = new Scratch(LOCK_BYTES);
  yield new Batch().read(address + OWNER_AT, 8, words, 0).read(address + IDENTITY_AT, 8, words, 8);
  return { owner: wordAt(words, 0), identity: wordAt(words, 8) };
}

function* pause(): Operation<void> {
  yield new Batch().pause(WAIT_MICROSECONDS, new Scratch(8));
}

function setWords({ i32 }: Scratch, expected: Word, desired: Word): void {
  i32[0] = expected.low;
  i32[1] = expected.high;
  i32[2] = desired.low;
  i32[3] = desired.high;
}

function wordAt({ i32 }: Scratch, at: number): Word {
  return { low: i32[at >> 2], high: i32[(at >> 2) + 1] };
}
