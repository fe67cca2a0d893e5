import { control } from '../../pool/control.ts';
import {
  type Address,
  Batch,
  type Operation,
  readInteger,
  Scratch,
  setWord,
  writeInteger,
} from '../../verbs/index.ts';
import type { KeyBound } from '../contract.ts';
import { BODY_BYTES, type MailboxGeometry, PAIR, REPLY_BYTES } from './geometry.ts';
import { collect } from './ordered-slots.ts';
import type { Pair } from './pair.ts';
import { decodeScan, type ScanMessage } from './scan-messages.ts';

/** Requests that are answered together. */
const TOGETHER_MAX = 64;

/** A request that waits for its answer. */
interface Waits {
  row: number;
  number: number;
}

/**
 * The skiplist server's end of its mailbox: answers what waits, under the lease of the role, and
 * otherwise applies what the log has (asynchronous application, section 4.2). Returns how many
 * requests it has answered.
 */
export function* answerScans(pair: Pair): Operation<number> {
  const waiting = yield* waitingScans(pair);
  if (waiting.length > 0) yield* answerTogether(pair, waiting);
  else yield* pair.skiplistServer.catchUp();
  yield* announceApplied(pair);
  return waiting.length;
}

function* waitingScans(pair: Pair): Operation<Waits[]> {
  const { geometry } = pair.skiplistMailbox;
  const rows = yield* rowsUsed(pair);
  const words = new Scratch(16 * rows);
  yield new Batch()
    .read(geometry.request(0), 8 * rows, words, 0)
    .read(geometry.answered(0), 8 * rows, words, 8 * rows);
  const waiting: Waits[] = [];
  for (let row = 0; row < rows && waiting.length < TOGETHER_MAX; row++) {
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
  return Math.max(1, readInteger(words, 0));
}

/** The skiplist catches up after all of them were posted: each has what its client has seen. */
function* answerTogether(pair: Pair, waiting: readonly Waits[]): Operation<void> {
  const { geometry } = pair.skiplistMailbox;
  const bodies = new Scratch(waiting.length * BODY_BYTES);
  const batch = new Batch();
  waiting.forEach(({ row }, i) => {
    batch.read(geometry.body(row), BODY_BYTES, bodies, i * BODY_BYTES);
  });
  yield batch;
  const messages = waiting.map((_, i) => decodeScan(bodies, i * BODY_BYTES));
  const bounds = yield* boundsOf(messages);
  yield* pair.skiplistServer.catchUp();
  batch.clear();
  messages.forEach(({ reverse, count, answer }, i) => {
    const { image } = pair.skiplistServer;
    const { low, high } = image.nodes;
    const found = collect(image, { from: bounds[i], reverse, count });
    const slots = found.map((node) => ({ low: low[node], high: high[node] }));
    postAnswer(batch, geometry, waiting[i], answer, slots);
  });
  yield batch;
}

function postAnswer(
  batch: Batch,
  geometry: MailboxGeometry,
  { row, number }: Waits,
  answer: Address,
  slots: readonly { low: number; high: number }[],
): void {
  const out = new Scratch(REPLY_BYTES + 8 + 8 * slots.length);
  writeInteger(out, 0, slots.length);
  writeInteger(out, REPLY_BYTES, number);
  slots.forEach(({ low, high }, i) => {
    setWord(out, REPLY_BYTES + 8 + 8 * i, low, high);
  });
  if (slots.length > 0) batch.write(answer, 8 * slots.length, out, REPLY_BYTES + 8);
  batch
    .write(geometry.reply(row), REPLY_BYTES, out, 0)
    .write(geometry.answered(row), 8, out, REPLY_BYTES);
}

/** Where they begin: all keys in one doorbell. */
function* boundsOf(messages: readonly ScanMessage[]): Operation<(KeyBound | undefined)[]> {
  const batch = new Batch();
  const keys = messages.map(({ isBounded, keyBytes, key }) => {
    if (!isBounded) return undefined;
    const bytes = Math.max(8, Math.ceil(keyBytes / 8) * 8);
    const words = new Scratch(bytes);
    batch.read(key, bytes, words, 0);
    return words;
  });
  if (batch.length > 0) yield batch;
  return messages.map(({ inclusive, keyBytes }, i) => {
    const key = keys[i]?.u8.slice(0, keyBytes);
    return key && { key, inclusive };
  });
}
