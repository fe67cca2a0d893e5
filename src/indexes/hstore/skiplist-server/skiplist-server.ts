import { invariant, StepwellError } from '../../../errors.ts';
import { control } from '../../../pool/control.ts';
import { pad8 } from '../../../records/layout.ts';
import { Batch, type Operation, Scratch, writeInteger } from '../../../verbs/index.ts';
import type { Pair } from '../pair.ts';
import { PAIR, REPLY_BYTES } from '../protocol/geometry.ts';
import { Stillness } from '../protocol/lease.ts';
import { type Folded, FoldedLog } from '../protocol/log.ts';
import { readBodies, readUnanswered, type Unanswered } from '../protocol/mailbox.ts';
import { readState, TableLost } from '../protocol/pair-state.ts';
import { readHeads, readKeys } from '../protocol/record-heads.ts';
import { answerOffset, decodeScan, type ScanMessage } from '../protocol/scan-messages.ts';
import { walkSlots } from '../protocol/table-reader.ts';
import { pauseAfter } from '../protocol/waiting.ts';
import { holding, readingAlone } from '../recovery/hold-lease.ts';
import { restoreTable } from '../recovery/rebuild-table.ts';
import type { SkiplistImage } from './skiplist-image.ts';

/** Requests to answer together. One doorbell reads all their keys, which may be long. */
const ANSWERS_AT_ONCE = 128;

/**
 * The skiplist server's end of its mailbox: answers the waiting requests, as the holder of the
 * skiplist lease. If there are none, it applies the log (asynchronous application, section 4.2).
 * Returns how many requests it has answered.
 *
 * It does not nest, although rebuilding a skiplist runs the server's duties, and this is one of
 * them: a second answer to a request would go to a block that its client has freed.
 */
export function* answerScans(pair: Pair): Operation<number> {
  if (pair.answers) return 0;
  pair.answers = true;
  try {
    const waiting = yield* readUnanswered(pair.skiplistMailbox.geometry);
    for (let first = 0; first < waiting.length; first += ANSWERS_AT_ONCE) {
      yield* answer(pair, waiting.slice(first, first + ANSWERS_AT_ONCE));
    }
    if (waiting.length === 0) yield* catchUp(pair);
    yield* announceApplied(pair);
    return waiting.length;
  } finally {
    pair.answers = false;
  }
}

/** Publishes the applied sequence, for which a client that writes with HStore (sync) waits. */
function* announceApplied(pair: Pair): Operation<void> {
  const { applied } = pair.skiplist;
  if (applied <= pair.announced) return;
  yield* control.store(pair.geometry.base + PAIR.applied, BigInt(applied));
  pair.announced = applied;
}

/** Answers all requests in the same few round trips, from one state of the skiplist. */
function* answer(pair: Pair, waiting: readonly Unanswered[]): Operation<void> {
  const messages = yield* readBodies(pair.skiplistMailbox.geometry, waiting, decodeScan);
  const keys = yield* keysOf(messages);
  // Not earlier: the answers must have what the clients had seen when they posted their requests.
  yield* catchUp(pair);
  const batch = new Batch();
  for (const [i, one] of waiting.entries()) postAnswer(pair, one, messages[i], keys[i], batch);
  yield batch;
}

function postAnswer(
  { skiplistMailbox: { geometry }, skiplist: { image } }: Pair,
  { row, number }: Unanswered,
  { reverse, count, block, keyBytes }: ScanMessage,
  from: Uint8Array | undefined,
  batch: Batch,
): void {
  const found = image.collect({ from, reverse, count });
  const slotsAt = REPLY_BYTES + 8;
  const out = new Scratch(slotsAt + 8 * found.length);
  writeInteger(out, 0, found.length);
  writeInteger(out, REPLY_BYTES, number);
  found.forEach((node, i) => {
    out.i32[(slotsAt >> 2) + 2 * i] = image.nodes.low[node];
    out.i32[(slotsAt >> 2) + 2 * i + 1] = image.nodes.high[node];
  });
  const answer = block + answerOffset(keyBytes);
  if (found.length > 0) batch.write(answer, 8 * found.length, out, slotsAt);
  batch
    .write(geometry.reply(row), REPLY_BYTES, out, 0)
    .write(geometry.answered(row), 8, out, REPLY_BYTES);
}

/** The key that each scan starts at; undefined if it starts at the first or the last key. */
function* keysOf(messages: readonly ScanMessage[]): Operation<(Uint8Array | undefined)[]> {
  const batch = new Batch();
  const keys = messages.map(({ block, keyBytes, isBounded }) => {
    const words = new Scratch(pad8(keyBytes));
    if (keyBytes > 0) batch.read(block, pad8(keyBytes), words, 0);
    return isBounded ? words.u8.subarray(0, keyBytes) : undefined;
  });
  if (batch.length > 0) yield batch;
  return keys;
}

/** Attempts while clients write. Each fails if the log's ring overwrites entries not yet read. */
const FUZZY_ATTEMPTS = 2;
/** Attempts while writes wait. A waiting writer overtakes this client if it makes no progress. */
const YIELDING_ATTEMPTS = 4;
const ATTEMPTS_MAX = 1000;

/** How far a table's changes are committed. */
interface Settled {
  committed: number;
  generation: number;
}

/** The result of a walk over the table: the changes that bring it up to `committed`. */
interface Built extends Settled {
  changes: readonly Folded[];
}

/**
 * Applies the log. Afterwards the skiplist has all that any GET or SCAN can have seen before the
 * call (`begun`), and nothing that a GET would not see after it (`committed`). One operation of a
 * client does it, and the others wait for the result. Otherwise each of a hundred scans that begin
 * together would build its own skiplist.
 */
export function* catchUp(pair: Pair): Operation<void> {
  const { skiplist, patience } = pair;
  const { committed, generation } = yield* settledState(pair);
  const stillness = new Stillness();
  let polls = 0;
  for (let attempt = 1; !skiplist.has(generation, committed); ) {
    if (skiplist.isAdvancing) {
      if (stillness.look(0n, skiplist.progress, polls) > patience.pollsMax) {
        const what = 'another operation of this client builds the skiplist and makes no progress';
        throw new StepwellError('SW_TIMEOUT', what);
      }
      yield* control.pause(pauseAfter(polls++, patience));
      continue;
    }
    yield* advance(pair, { committed, generation }, attempt++);
    invariant(attempt < ATTEMPTS_MAX, 'a skiplist never catches up');
  }
}

function* advance(pair: Pair, target: Settled, attempt: number): Operation<void> {
  const { generation, committed } = target;
  const { skiplist } = pair;
  skiplist.isAdvancing = true;
  try {
    if (yield* skiplist.followLog(generation, committed)) return;
    if (!skiplist.has(generation, committed)) yield* rebuild(pair, attempt);
  } finally {
    skiplist.isAdvancing = false;
  }
}

function* settledState(pair: Pair): Operation<Settled> {
  const committed = yield* pair.hashServer.committedFromNow();
  const { table } = yield* readState(pair);
  return { committed, generation: table.generation };
}

/**
 * Builds the skiplist from the table (section 3.2): from the slots that a walk finds, and then the
 * log from before the walk. If the log's ring is overwritten meanwhile several times, writes must
 * wait.
 */
function* rebuild(pair: Pair, attempt: number): Operation<void> {
  const { skiplist } = pair;
  skiplist.rebuilds++;
  const image = skiplist.empty();
  try {
    const built =
      attempt > FUZZY_ATTEMPTS
        ? yield* walkHolding(pair, image, attempt > FUZZY_ATTEMPTS + YIELDING_ATTEMPTS)
        : yield* walk(pair, image, false);
    if (built === undefined) return;
    const { committed, generation, changes } = built;
    image.change(changes, yield* readKeys(changes.filter((change) => image.wantsKeyOf(change))));
    skiplist.install(image, generation, committed);
  } catch (error) {
    if (!(error instanceof TableLost)) throw error;
    yield* restoreTable(pair, error.generation);
  }
}

/**
 * Walks as the holder of the hash lease, so that no client writes. It links the list before it
 * releases the lease, because linking takes long enough for the log's ring to be overwritten. After
 * failed attempts (`isPatient`) it takes the lease so that others cannot overtake it, but may fence
 * it if it makes no progress.
 */
function* walkHolding(
  pair: Pair,
  image: SkiplistImage,
  isPatient: boolean,
): Operation<Built | undefined> {
  const what = 'the lease to build the skiplist is not free';
  const held = yield* pair.hashLease.holder();
  const isAlone = isPatient || held.token !== 0 || pair.hashLease.isServer(held);
  const work = () => walk(pair, image, true);
  return yield* isAlone ? holding(pair, what, work) : readingAlone(pair, what, work);
}

/**
 * Reads the whole table into an image. On the way it follows the log, or beats if it holds the
 * lease. Undefined when the table was replaced or the log's ring overwritten meanwhile.
 */
function* walk(pair: Pair, image: SkiplistImage, isHeld: boolean): Operation<Built | undefined> {
  const { skiplist, hashLease } = pair;
  const { committed: from, generation } = yield* settledState(pair);
  const log = new FoldedLog(pair.geometry, from);
  const follow = function* () {
    skiplist.progress++;
    // If this misses overwritten entries, the last `follow` below fails.
    if (isHeld) yield* hashLease.beat();
    else yield* log.follow((yield* readState(pair)).committed);
  };
  yield* walkSlots(pair, function* (slots) {
    yield* readHeads(slots, (i, key) => image.add(slots[i], key));
    yield* follow();
  });
  yield* image.link(function* () {
    yield* follow();
    yield* pair.meanwhile();
  });
  const { committed, generation: end } = yield* settledState(pair);
  // A walk that spans two generations has mixed the slots of two tables.
  if (generation !== end || !(yield* log.follow(committed))) return undefined;
  const changes = log.changes.map((folded) => ({ ...folded, rekeyed: true }));
  return { committed, generation, changes };
}
