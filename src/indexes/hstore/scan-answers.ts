import { control } from '../../pool/control.ts';
import { Batch, type Operation, readInteger, Scratch, writeInteger } from '../../verbs/index.ts';
import type { KeyBound } from '../contract.ts';
import { BODY_BYTES, PAIR, REPLY_BYTES } from './geometry.ts';
import { collect } from './ordered-slots.ts';
import type { Pair } from './pair.ts';
import { decodeScan, type ScanMessage } from './scan-messages.ts';

/** Requests that are answered together: a key of each is read at once, and may be long. */
const ANSWERS_AT_ONCE = 128;

/** A request that is not answered. */
interface Waits {
  row: number;
  number: number;
}

/**
 * The skiplist server's end of its mailbox: answers what waits, under the lease of the role, and
 * otherwise applies what the log has (asynchronous application, section 4.2). Returns how many
 * requests it has answered.
 *
 * Not in the midst of itself, as a duty of what it does meanwhile: the second answer to a request
 * would be written into blocks that its client has given back after the first.
 */
export function* answerScans(pair: Pair): Operation<number> {
  if (pair.answers) return 0;
  pair.answers = true;
  try {
    return yield* answerWaiting(pair);
  } finally {
    pair.answers = false;
  }
}

function* answerWaiting(pair: Pair): Operation<number> {
  const waiting = yield* waitingScans(pair);
  for (let first = 0; first < waiting.length; first += ANSWERS_AT_ONCE) {
    yield* answer(pair, waiting.slice(first, first + ANSWERS_AT_ONCE));
  }
  if (waiting.length === 0) yield* pair.skiplistServer.catchUp();
  yield* announceApplied(pair);
  return waiting.length;
}

/** The rows whose last request was not answered. */
function* waitingScans(pair: Pair): Operation<Waits[]> {
  const { geometry } = pair.skiplistMailbox;
  const rows = yield* rowsUsed(pair);
  const words = new Scratch(16 * rows);
  yield new Batch()
    .read(geometry.request(0), 8 * rows, words, 0)
    .read(geometry.answered(0), 8 * rows, words, 8 * rows);
  const waiting: Waits[] = [];
  for (let row = 0; row < rows; row++) {
    const number = readInteger(words, 8 * row);
    if (number !== readInteger(words, 8 * (rows + row))) waiting.push({ row, number });
  }
  return waiting;
}

/** Who writes in the way of HStore (sync) waits for this. */
function* announceApplied(pair: Pair): Operation<void> {
  const { applied } = pair.skiplistServer;
  if (applied <= pair.announced) return;
  yield* control.store(pair.geometry.base + PAIR.applied, BigInt(applied));
  pair.announced = applied;
}

function* rowsUsed({ skiplistMailbox: { geometry } }: Pair): Operation<number> {
  const words = new Scratch(8);
  yield new Batch().read(geometry.rowsUsed, 8, words, 0);
  return Math.max(1, geometry.inTable(readInteger(words, 0)));
}

/** All in the same few round trips, from the skiplist as it is at one moment. */
function* answer(pair: Pair, waiting: readonly Waits[]): Operation<void> {
  const { geometry } = pair.skiplistMailbox;
  const batch = new Batch();
  const bodies = new Scratch(BODY_BYTES * waiting.length);
  waiting.forEach(({ row }, i) => {
    batch.read(geometry.body(row), BODY_BYTES, bodies, BODY_BYTES * i);
  });
  yield batch;
  const messages = waiting.map((_, i) => decodeScan(bodies, BODY_BYTES * i));
  const bounds = yield* boundsOf(messages);
  // After all of them were posted: what their clients have seen before is in the answers.
  yield* pair.skiplistServer.catchUp();
  batch.clear();
  waiting.forEach((one, i) => {
    postAnswer(pair, one, messages[i], bounds[i], batch);
  });
  yield batch;
}

function postAnswer(
  { skiplistMailbox: { geometry }, skiplistServer: { image } }: Pair,
  { row, number }: Waits,
  { reverse, count, answer: block }: ScanMessage,
  from: KeyBound | undefined,
  batch: Batch,
): void {
  const found = collect(image, { from, reverse, count });
  const out = new Scratch(REPLY_BYTES + 8 + 8 * found.length);
  writeInteger(out, 0, found.length);
  writeInteger(out, REPLY_BYTES, number);
  found.forEach((node, i) => {
    out.i32[(REPLY_BYTES >> 2) + 2 + 2 * i] = image.nodes.low[node];
    out.i32[(REPLY_BYTES >> 2) + 3 + 2 * i] = image.nodes.high[node];
  });
  if (found.length > 0) batch.write(block, 8 * found.length, out, REPLY_BYTES + 8);
  batch
    .write(geometry.reply(row), REPLY_BYTES, out, 0)
    .write(geometry.answered(row), 8, out, REPLY_BYTES);
}

/** From where each scan goes; undefined from its end. */
function* boundsOf(messages: readonly ScanMessage[]): Operation<(KeyBound | undefined)[]> {
  const batch = new Batch();
  const keys = messages.map(({ isBounded, key, keyBytes }) => {
    const words = new Scratch(isBounded ? boundBytes(keyBytes) : 0);
    if (isBounded) batch.read(key, boundBytes(keyBytes), words, 0);
    return words.u8;
  });
  if (batch.length > 0) yield batch;
  return messages.map(({ isBounded, inclusive, keyBytes }, i) => {
    return isBounded ? { key: keys[i].subarray(0, keyBytes), inclusive } : undefined;
  });
}

function boundBytes(keyBytes: number): number {
  return Math.max(8, Math.ceil(keyBytes / 8) * 8);
}
