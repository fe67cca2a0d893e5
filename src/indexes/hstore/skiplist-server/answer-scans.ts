import { control } from '../../../pool/control.ts';
import { pad8 } from '../../../records/layout.ts';
import { Batch, type Operation, Scratch, writeInteger } from '../../../verbs/index.ts';
import type { Pair } from '../pair.ts';
import { PAIR, REPLY_BYTES } from '../protocol/geometry.ts';
import { readBodies, readUnanswered, type Unanswered } from '../protocol/mailbox.ts';
import { answerOffset, decodeScan, type ScanMessage } from '../protocol/scan-messages.ts';
import { catchUp } from './catch-up.ts';

/** Requests that are answered together: a key of each is read at once, and may be long. */
const ANSWERS_AT_ONCE = 128;

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

/** A client that writes with HStore (sync) waits for this. */
function* announceApplied(pair: Pair): Operation<void> {
  const { applied } = pair.skiplist;
  if (applied <= pair.announced) return;
  yield* control.store(pair.geometry.base + PAIR.applied, BigInt(applied));
  pair.announced = applied;
}

/** All in the same few round trips, from the skiplist as it is at one moment. */
function* answer(pair: Pair, waiting: readonly Unanswered[]): Operation<void> {
  const messages = yield* readBodies(pair.skiplistMailbox.geometry, waiting, decodeScan);
  const keys = yield* keysOf(messages);
  // After all of them were posted: what their clients have seen before is in the answers.
  yield* catchUp(pair);
  const batch = new Batch();
  waiting.forEach((one, i) => {
    postAnswer(pair, one, messages[i], keys[i], batch);
  });
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

/** From where each scan goes; undefined from its end. */
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
