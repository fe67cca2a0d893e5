import { control } from '../../pool/control.ts';
import { Batch, type Operation, readInteger, Scratch, writeInteger } from '../../verbs/index.ts';
import { BODY_BYTES, PAIR, REPLY_BYTES } from './geometry.ts';
import { collect } from './ordered-slots.ts';
import type { Pair } from './pair.ts';
import { decodeScan, type ScanMessage } from './scan-messages.ts';

/**
 * The skiplist server's end of its mailbox: answers what waits, under the lease of the role, and
 * otherwise applies what the log has (asynchronous application, section 4.2). Returns how many
 * requests it has answered.
 */
export function* answerScans(pair: Pair): Operation<number> {
  const { geometry } = pair.skiplistMailbox;
  const rows = yield* rowsUsed(pair);
  const words = new Scratch(Math.max(8, 16 * rows));
  yield new Batch()
    .read(geometry.request(0), 8 * rows, words, 0)
    .read(geometry.answered(0), 8 * rows, words, 8 * rows);
  let answered = 0;
  for (let row = 0; row < rows; row++) {
    const number = readInteger(words, 8 * row);
    if (number === readInteger(words, 8 * (rows + row))) continue;
    yield* answer(pair, row, number);
    answered++;
  }
  if (answered === 0) yield* pair.skiplistServer.catchUp();
  yield* announceApplied(pair);
  return answered;
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

function* answer(pair: Pair, row: number, number: number): Operation<void> {
  const { geometry } = pair.skiplistMailbox;
  const body = new Scratch(BODY_BYTES);
  yield new Batch().read(geometry.body(row), BODY_BYTES, body, 0);
  const message = decodeScan(body, 0);
  const from = yield* boundOf(message);
  // After the request was posted: what its client has seen before is in the answer.
  yield* pair.skiplistServer.catchUp();
  const { reverse, count } = message;
  const { image } = pair.skiplistServer;
  const found = collect(image, { from, reverse, count });
  const out = new Scratch(REPLY_BYTES + 8 + 8 * found.length);
  writeInteger(out, 0, found.length);
  writeInteger(out, REPLY_BYTES, number);
  found.forEach((node, i) => {
    out.i32[(REPLY_BYTES >> 2) + 2 + 2 * i] = image.nodes.low[node];
    out.i32[(REPLY_BYTES >> 2) + 3 + 2 * i] = image.nodes.high[node];
  });
  const batch = new Batch();
  if (found.length > 0) batch.write(message.answer, 8 * found.length, out, REPLY_BYTES + 8);
  yield batch
    .write(geometry.reply(row), REPLY_BYTES, out, 0)
    .write(geometry.answered(row), 8, out, REPLY_BYTES);
}

function* boundOf({ isBounded, inclusive, keyBytes, key }: ScanMessage) {
  if (!isBounded) return undefined;
  const bytes = Math.max(8, Math.ceil(keyBytes / 8) * 8);
  const words = new Scratch(bytes);
  yield new Batch().read(key, bytes, words, 0);
  return { key: words.u8.slice(0, keyBytes), inclusive };
}
