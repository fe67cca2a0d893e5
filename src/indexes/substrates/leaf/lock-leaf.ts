import { invariant, StepwellError } from '../../../errors.ts';
import { isGone } from '../../../pool/clients/client-word.ts';
import { FIRST_LEAF } from '../../../pool/intents/intent.ts';
import { NO_SLOT } from '../../../pool/intents/intent-slots.ts';
import { clientOf, freeHigh, isLocked } from '../../../pool/intents/lock-word.ts';
import {
  type Address,
  type Batch,
  highHalf,
  lowHalf,
  type Operation,
  setWord,
  swapped,
} from '../../../verbs/index.ts';
import { HEADER_BYTES, IDENTITY_AT, OWNER_AT } from './layout.ts';
import { type LeafClient, OWNED, UNKNOWN } from './leaf-client.ts';
import { IMAGE_AT, type LeafRequest, POLL_AT, SWAP_AT } from './leaf-request.ts';
import { isLeafStill, postEntries } from './read-leaf.ts';

/** Lock holders for which one operation waits. */
const HOLDERS_MAX = 100_000;
/** Polls for a slot before a client may give up, however slow it is. */
const SLOT_LOOKS_MIN = 500;
/** Neighbourhoods that one attempt also reads for waiting operations. */
const HOMES_MAX = 8;

/**
 * One attempt to lock the key's leaf: D[WRITE intent's head; (WRITE record); CAS owner; READ header
 * and entries]. The READs follow a successful CAS, so they are under the lock. True when the
 * operation holds the leaf and the leaf is the key's. While it waits for its turn, another
 * operation of this client may make its change: then `turnDone` is set, and it does not try the
 * lock.
 *
 * The head names lock and leaf before the lock is tried. So every lock leads to its operation, and
 * no older intent in the slot can be mistaken for this one's.
 *
 * When a split has claimed blocks, the READ covers the whole leaf, and the blocks are written
 * before the CAS: see `postFirstWrites`. `postBehind` adds verbs that follow it even if it fails.
 */
export function* lockLeaf(
  client: LeafClient,
  request: LeafRequest,
  attempt: number,
  blocks?: readonly Address[],
  postBehind?: (batch: Batch) => void,
): Operation<boolean> {
  yield* takeTurn(client, request);
  if (request.turnDone) return false;
  if (request.slot === NO_SLOT) yield* takeSlot(client, request);
  const { words, batch } = request;
  const { block } = request.record;
  postHead(client, request);
  if (block !== 0) client.records.postFirst(request, batch);
  if (blocks !== undefined) postFirstWrites(request, blocks);
  batch.cas(request.leaf, words, SWAP_AT).read(request.leaf, HEADER_BYTES, words, IMAGE_AT);
  const { span, neighbourhood } = client.geometry.shape;
  request.known = blocks ? span : neighbourhood;
  postEntries(client, request, blocks ? 0 : request.home, request.known, batch);
  if (request.joins) postHomesBehind(client, request);
  postBehind?.(batch);
  yield batch;
  if (!swapped(words, SWAP_AT)) {
    yield* afterRefusal(client, request, attempt);
    return false;
  }
  // The free word is derived from the identity, so no other leaf in the block has it.
  invariant(isLeafStill(request), 'a lock was taken on another leaf');
  request.locked = true;
  request.readsBounds = true;
  while (client.owns(request) === UNKNOWN) yield* client.learnBounds(request);
  if (client.owns(request) === OWNED) return true;
  yield* unlock(request);
  yield* client.redirect(request, attempt);
  return false;
}

/** Writes to new blocks: a region that cannot be mapped fails this batch, not the last one. */
export function postFirstWrites({ words, batch }: LeafRequest, blocks: readonly Address[]): void {
  setWord(words, POLL_AT, 0, 0);
  for (const block of blocks) batch.write(block, 8, words, POLL_AT);
}

/**
 * Waits while other operations of this client are at the request's leaf. Meanwhile it keeps no
 * slot, because the operation whose turn it is may need one.
 */
function* takeTurn(client: LeafClient, request: LeafRequest): Operation<void> {
  const { turns } = client;
  while (!request.hasTurn || request.turnAt !== request.leaf) {
    giveSlot(client, request);
    turns.give(request);
    const hasWaited = yield* turns.take(request, request.leaf);
    if (request.turnDone) return;
    // An operation before this one may have split the leaf.
    if (hasWaited) yield* client.begin(request);
  }
}

/** Adds the READs of the neighbourhoods of waiting changes: see `combine`. */
function postHomesBehind(client: LeafClient, request: LeafRequest): void {
  const { homesRead, home, batch } = request;
  homesRead.length = 0;
  for (const other of client.turns.waitingBehind(request)) {
    if (!other.joins || homesRead.length === HOMES_MAX) return;
    if (other.home === home || homesRead.includes(other.home)) continue;
    homesRead.push(other.home);
    postEntries(client, request, other.home, client.geometry.shape.neighbourhood, batch);
  }
}

/**
 * Waits while other operations of this client, each at its own leaf, hold all slots. Gives up when
 * no slot came free for twice the time after which those operations give up.
 */
function* takeSlot(client: LeafClient, request: LeafRequest): Operation<void> {
  const { intents, timer } = client.pool;
  request.slot = intents.take();
  if (request.slot !== NO_SLOT) return;
  let { given } = intents;
  let since = timer.now();
  for (let looks = 1; ; looks++) {
    if (intents.given !== given) [looks, since] = [1, timer.now()];
    given = intents.given;
    client.retries.noSlot++;
    const isLong = looks > SLOT_LOOKS_MIN && timer.now() - since > 2 * client.lockTimeoutMs;
    if (isLong) throw noSlot();
    yield request.batch.clear().pause(client.patience.microseconds, request.words);
    request.slot = intents.take();
    if (request.slot !== NO_SLOT) return;
  }
}

/** Begins the intent of the lock that the operation tries or holds. */
export function beginIntent({ intent, leaf, ownLow, ownHigh, idLow, idHigh }: LeafRequest): void {
  intent.begin(ownLow, ownHigh);
  intent.setLeaf(FIRST_LEAF, leaf, idLow, idHigh);
}

/** Begins the intent, and the batch, with the WRITE of the intent's head. */
function postHead({ pool }: LeafClient, request: LeafRequest): void {
  const { intent, leaf, slot, idLow, idHigh, words, batch } = request;
  const { intents, layout } = pool;
  const node = layout.nodeOf(leaf);
  const ticket = intents.nextTicket(slot);
  request.ownLow = intents.wordLow(ticket, node, slot);
  request.ownHigh = intents.wordHigh(ticket);
  beginIntent(request);
  setWord(words, SWAP_AT, idLow, freeHigh(idHigh));
  setWord(words, SWAP_AT + 8, request.ownLow, request.ownHigh);
  intent.postHead(intents.address(node, slot), batch.clear());
}

/** After the CAS failed: the leaf is another one by now, or another client holds it. */
function* afterRefusal(client: LeafClient, request: LeafRequest, attempt: number): Operation<void> {
  const high = highHalf(request.words, SWAP_AT + 16);
  // The identity was read after the owner word: if it is not the leaf's, that word is no owner.
  if (!isLeafStill(request)) return yield* client.redirect(request, attempt);
  invariant(isLocked(high), `the free word of the leaf at ${request.leaf} is another one`);
  yield* outwait(client, request, attempt);
}

/**
 * Waits while another client holds the request's leaf. If that client is gone, does what its intent
 * says. Reads the identity after the owner: if it is not the leaf's, the owner word is none.
 */
export function* outwait(
  client: LeafClient,
  request: LeafRequest,
  attempt: number,
): Operation<void> {
  const { patience, pool } = client;
  client.retries.locked++;
  if (attempt === 1) request.forgetHolder();
  if (attempt <= patience.spins) return;
  if (attempt - request.looks > HOLDERS_MAX) throw alwaysLocked(attempt);
  const { batch, words, leaf, idLow, idHigh } = request;
  let [low, high] = [0, 0];
  for (let poll = 0; poll <= patience.polls; poll++) {
    batch.clear();
    if (poll > 0) batch.pause(patience.microseconds, words);
    batch.read(leaf + OWNER_AT, 8, words, POLL_AT);
    yield batch.read(leaf + IDENTITY_AT, 8, words, POLL_AT + 8);
    const isLeaf = lowHalf(words, POLL_AT + 8) === idLow && highHalf(words, POLL_AT + 8) === idHigh;
    if (!isLeaf || !isLocked(highHalf(words, POLL_AT))) return;
    if (poll > 0 && (lowHalf(words, POLL_AT) !== low || highHalf(words, POLL_AT) !== high)) return;
    low = lowHalf(words, POLL_AT);
    high = highHalf(words, POLL_AT);
  }
  const owner = clientOf({ low, high });
  const isDead = yield* isGone(pool.membership, owner);
  if (isDead) yield* pool.repairs.repair(leaf, { low, high });
  keepWaiting(client, request, low, high, isDead);
}

/**
 * Waiting for the same holder is bounded by time, not by attempts. So are repairs that leave a dead
 * holder's lock in place: no repair can free a damaged lock.
 */
function keepWaiting(
  client: LeafClient,
  request: LeafRequest,
  low: number,
  high: number,
  isDead: boolean,
): void {
  const now = client.pool.timer.now();
  if (request.heldLow !== low || request.heldHigh !== high) request.heldSince = now;
  request.heldLow = low;
  request.heldHigh = high;
  request.looks++;
  if (now - request.heldSince < client.lockTimeoutMs) return;
  const holder = clientOf({ low, high }) & 0xfff;
  const error = (isDead ? neverRepaired : heldTooLong)(holder, client.lockTimeoutMs);
  client.turns.refuse(request, error);
  throw error;
}

function heldTooLong(holder: number, ms: number): StepwellError {
  const what = `client ${holder} is alive and has held the lock of a leaf for ${ms} ms`;
  const remedy = 'continue or kill it (stepwell inspect names it), or wait longer (lockTimeoutMs)';
  return new StepwellError('SW_CONTENTION', `${what}: ${remedy}`);
}

function neverRepaired(holder: number, ms: number): StepwellError {
  const what = `client ${holder} died with a leaf's lock, which has not been repaired in ${ms} ms`;
  const remedy = 'look for damage (stepwell check), or for a client that is stuck in the repair';
  return new StepwellError('SW_CONTENTION', `${what}: ${remedy}`);
}

function alwaysLocked(attempt: number): StepwellError {
  const why = `other clients keep locking the leaf: gave up after ${attempt} attempts`;
  return new StepwellError('SW_CONTENTION', why);
}

function noSlot(): StepwellError {
  const why = 'operations of this client on other leaves hold all intent slots and are stuck';
  return new StepwellError('SW_CONTENTION', why);
}

/** Releases the leaf unchanged. */
export function* unlock(request: LeafRequest): Operation<void> {
  const { words, leaf, idLow, idHigh, batch } = request;
  invariant(request.locked, 'a leaf is unlocked without its lock');
  setWord(words, SWAP_AT, idLow, freeHigh(idHigh));
  yield batch.clear().write(leaf, 8, words, SWAP_AT);
  request.locked = false;
}

/** Ends an operation that may hold a slot. If it has failed under the lock, releases the leaf. */
export function* letGo(client: LeafClient, request: LeafRequest): Operation<void> {
  try {
    if (request.locked) yield* unlock(request);
  } finally {
    giveSlot(client, request);
    request.locked = false;
    request.inserts = false;
    client.turns.give(request);
  }
}

function giveSlot({ pool }: LeafClient, request: LeafRequest): void {
  if (request.slot !== NO_SLOT) pool.intents.give(request.slot);
  request.slot = NO_SLOT;
}
