import { StepwellError } from '../../errors.ts';
import {
  type Address,
  type Batch,
  CAS,
  type Completion,
  FAA,
  offsetOf,
  PAUSE,
  READ,
  regionOf,
  Scratch,
  WRITE,
} from '../../verbs/index.ts';
import { copyLocal } from '../shared/copy.ts';
import { nodeOf, type Part } from './client/flight.ts';
import type { Outbox } from './client/outbox.ts';
import type { SentFrame } from './client/sent-frames.ts';
import {
  AWAIT_HEAD_BYTES,
  BATCH,
  type FrameShape,
  HEAD_BYTES,
  headWord,
  padded,
  requestBytes,
  resultBytes,
  verbWord,
  WireError,
} from './wire.ts';

/** Bytes of row `row` that go into one verb, when `sent` of them have gone before. */
function piece(batch: Batch, row: number, sent: number, verbBytesMax: number): number {
  const left = batch.bytes[row] - sent;
  return left > verbBytesMax ? verbBytesMax : left;
}

/**
 * Puts the next verbs of a part into one frame: all of them, unless they are long. READ and WRITE
 * are atomic only by words, so a long one may go as several.
 */
export function encodePart(
  part: Part,
  shape: FrameShape,
  sequence: number,
  outbox: Outbox,
  frame: SentFrame,
): void {
  const { batch } = part.flight;
  frame.part = part;
  frame.batch = batch;
  frame.sequence = sequence;
  frame.isReads = false;
  frame.firstRow = part.row;
  frame.firstSent = part.sent;
  measure(frame, part.end, shape);
  encodeVerbs(frame, shape, outbox);
  part.row = frame.endRow;
  part.sent = frame.endSent;
  part.frames++;
}

/**
 * Puts all of a batch for the only node into one frame, which is what most batches are. False, and
 * nothing is put, when it is too long or more than verbs.
 */
export function encodeWhole(
  batch: Batch,
  completion: Completion,
  shape: FrameShape,
  sequence: number,
  outbox: Outbox,
  frame: SentFrame,
): boolean {
  frame.part = undefined;
  frame.batch = batch;
  frame.completion = completion;
  frame.sequence = sequence;
  frame.firstRow = 0;
  frame.firstSent = 0;
  if (encodeReads(frame, shape, outbox)) return true;
  const { length } = batch;
  if (!isVerbs(batch)) return false;
  measure(frame, length, shape);
  if (frame.endRow < length) return false;
  encodeVerbs(frame, shape, outbox);
  return true;
}

function isVerbs({ kind, length }: Batch): boolean {
  for (let row = 0; row < length; row++) {
    if (kind[row] >= PAUSE) return false;
  }
  return length > 0;
}

/** One pass over a batch that only READs. What is imported is read once: in a loop it costs. */
function encodeReads(frame: SentFrame, { budget }: FrameShape, outbox: Outbox): boolean {
  const { batch } = frame;
  const { kind, address, bytes, length } = batch;
  const read = READ;
  const toWord = verbWord;
  const regionAt = regionOf;
  const offsetAt = offsetOf;
  const content = 8 * length;
  frame.isReads = false;
  if (kind[0] !== read || length === 0 || content > budget) return false;
  const { i32 } = outbox.reserve(HEAD_BYTES + content);
  let word = (outbox.length - content) >> 2;
  i32[word - 2] = headWord(BATCH, HEAD_BYTES + content);
  i32[word - 1] = frame.sequence;
  let results = 0;
  for (let row = 0; row < length; row++) {
    const wanted = bytes[row];
    results += wanted;
    if (kind[row] !== read || results > budget) {
      outbox.withdraw(HEAD_BYTES + content);
      return false;
    }
    const from = address[row];
    i32[word] = toWord(read, regionAt(from), wanted);
    i32[word + 1] = offsetAt(from);
    word += 2;
  }
  frame.isReads = true;
  frame.endRow = length;
  frame.endSent = 0;
  frame.requestBytes = content;
  frame.resultBytes = results;
  return true;
}

/** How far the frame goes, of rows that end before `end`. */
function measure(frame: SentFrame, end: number, shape: FrameShape): void {
  const { batch } = frame;
  const { node, nodes, budget, verbBytesMax } = shape;
  let row = frame.firstRow;
  let sent = frame.firstSent;
  let request = 0;
  let results = 0;
  while (row < end) {
    if (nodes === 1 || nodeOf(batch.address[row], nodes) === node) {
      const kind = batch.kind[row];
      const bytes = piece(batch, row, sent, verbBytesMax);
      const content = requestBytes(kind, bytes);
      if (content < 0) throw new WireError(`the wire has no verb ${kind}`);
      const returned = resultBytes(kind, bytes);
      const full = request + 8 + content > budget || results + returned > budget;
      if (full && request > 0) break;
      request += 8 + content;
      results += returned;
      sent += bytes;
      if (sent < batch.bytes[row]) continue;
    }
    row++;
    sent = 0;
  }
  frame.endRow = row;
  frame.endSent = sent;
  frame.requestBytes = request;
  frame.resultBytes = results;
}

/** Puts the frame that was measured. */
function encodeVerbs(frame: SentFrame, shape: FrameShape, outbox: Outbox): void {
  const { node, nodes, verbBytesMax } = shape;
  const bytes = HEAD_BYTES + frame.requestBytes;
  const output = outbox.reserve(bytes);
  const start = outbox.length - bytes;
  output.i32[start >> 2] = headWord(BATCH, bytes);
  output.i32[(start >> 2) + 1] = frame.sequence;
  const { batch, endRow, endSent } = frame;
  let at = start + HEAD_BYTES;
  let row = frame.firstRow;
  let sent = frame.firstSent;
  while (row < endRow || (row === endRow && sent < endSent)) {
    const address = batch.address[row];
    if (nodes === 1 || nodeOf(address, nodes) === node) {
      const bytes = piece(batch, row, sent, verbBytesMax);
      at = encodeVerb(batch, row, sent, bytes, nodes, output, at);
      sent += bytes;
      if (sent < batch.bytes[row]) continue;
    }
    row++;
    sent = 0;
  }
}

/** Returns where the next verb begins. */
function encodeVerb(
  batch: Batch,
  row: number,
  sent: number,
  bytes: number,
  nodes: number,
  output: Scratch,
  at: number,
): number {
  const kind = batch.kind[row];
  const local = batch.scratch[row];
  const from = batch.offset[row] + sent;
  const content = putVerb(kind, batch.address[row] + sent, bytes, nodes, output, at);
  if (kind === READ) return content;
  if (kind === WRITE) {
    copyOut(local, from, output, content, bytes);
    return content + padded(bytes);
  }
  const words = requestBytes(kind, bytes) >> 3;
  for (let i = 0; i < words; i++) output.f64[(content >> 3) + i] = local.f64[(from >> 3) + i];
  return content + 8 * words;
}

function putVerb(
  kind: number,
  address: Address,
  bytes: number,
  nodes: number,
  { i32 }: Scratch,
  at: number,
): number {
  const region = nodes === 1 ? regionOf(address) : Math.floor(regionOf(address) / nodes);
  i32[at >> 2] = verbWord(kind, region, bytes);
  i32[(at >> 2) + 1] = offsetOf(address);
  return at + 8;
}

/** The request of the call for an AWAIT at `first` and the READs behind it; see node/awaits.ts. */
export function encodeAwait(batch: Batch, first: number, end: number, nodes: number): Uint8Array {
  const { address, bytes, scratch, offset } = batch;
  const length = AWAIT_HEAD_BYTES + 8 * (end - first);
  const request = new Scratch(length);
  request.i32[0] = bytes[first];
  copyLocal(scratch[first], offset[first], request, 8, 8);
  let at = putVerb(READ, address[first], 8, nodes, request, AWAIT_HEAD_BYTES);
  for (let row = first + 1; row < end; row++) {
    at = putVerb(READ, address[row], bytes[row], nodes, request, at);
  }
  return request.u8.subarray(0, length);
}

/** Stores what the READs behind an AWAIT have returned, unless it is of another length. */
export function decodeAwait(
  batch: Batch,
  first: number,
  end: number,
  reply: Uint8Array,
): StepwellError | undefined {
  const { bytes, scratch, offset } = batch;
  let length = 0;
  for (let row = first + 1; row < end; row++) length += bytes[row];
  if (reply.length !== length) {
    return new StepwellError('SW_PROTOCOL', `a reply of ${reply.length} bytes, not ${length}`);
  }
  let at = 0;
  for (let row = first + 1; row < end; row++) {
    scratch[row].u8.set(reply.subarray(at, at + bytes[row]), offset[row]);
    at += bytes[row];
  }
  return undefined;
}

function copyOut(local: Scratch, from: number, output: Scratch, at: number, bytes: number): void {
  if (((from | bytes) & 7) === 0) {
    copyLocal(local, from, output, at, bytes);
    return;
  }
  output.u8.set(local.u8.subarray(from, from + bytes), at);
  output.u8.fill(0, at + bytes, at + padded(bytes));
}

/** Places what the verbs of a frame returned; the results begin at `at` of `input`. */
export function decodeResults(
  frame: SentFrame,
  { node, nodes, verbBytesMax }: FrameShape,
  input: Scratch,
  at: number,
): void {
  if (frame.isReads) {
    decodeReads(frame, input, at);
    return;
  }
  const { batch, endRow, endSent } = frame;
  let row = frame.firstRow;
  let sent = frame.firstSent;
  let from = at;
  while (row < endRow || (row === endRow && sent < endSent)) {
    if (nodes === 1 || nodeOf(batch.address[row], nodes) === node) {
      const bytes = piece(batch, row, sent, verbBytesMax);
      from = decodeVerb(batch, row, sent, bytes, input, from);
      sent += bytes;
      if (sent < batch.bytes[row]) continue;
    }
    row++;
    sent = 0;
  }
}

/** READs that lie side by side in the same scratch are copied together. */
function decodeReads(frame: SentFrame, input: Scratch, at: number): void {
  const { bytes, offset, scratch } = frame.batch;
  const end = frame.endRow;
  let from = at;
  for (let row = frame.firstRow; row < end; ) {
    const local = scratch[row];
    const into = offset[row];
    let length = bytes[row++];
    while (row < end && scratch[row] === local && offset[row] === into + length) {
      length += bytes[row++];
    }
    copyLocal(input, from, local, into, length);
    from += length;
  }
}

function decodeVerb(
  batch: Batch,
  row: number,
  sent: number,
  bytes: number,
  input: Scratch,
  from: number,
): number {
  const kind = batch.kind[row];
  const local = batch.scratch[row];
  const into = batch.offset[row] + sent;
  if (kind === READ) {
    copyLocal(input, from, local, into, bytes);
    return from + bytes;
  }
  if (kind === WRITE) return from;
  local.f64[oldWord(kind, into >> 3)] = input.f64[from >> 3];
  return from + 8;
}

/** Where the verb leaves the old value, as a word of the scratch. */
function oldWord(kind: number, word: number): number {
  if (kind === CAS) return word + 2;
  if (kind === FAA) return word + 1;
  throw new WireError(`a result of verb ${kind}`);
}
