import { AWAIT, type Batch, CALL, CAS, FAA, offsetOf, READ, WRITE } from '../../src/verbs/index.ts';
import { LINE_BYTES, type SimulatedMemory } from './memory.ts';

const CAS_OPERAND_BYTES = 16;
const FAA_OPERAND_BYTES = 8;
const WORD_BYTES = 8;

/** Bytes of an AWAIT besides a word for each READ behind it: the timeout, address and old word. */
const AWAIT_HEAD_BYTES = 24;

/** The end of the READs that an AWAIT's message and answer carry: those behind it on its node. */
export function awaitEnd(batch: Batch, first: number, memory: SimulatedMemory): number {
  const { kind, address, length } = batch;
  const node = memory.nodeOf(address[first]);
  let row = first + 1;
  while (row < length && kind[row] === READ && memory.nodeOf(address[row]) === node) row++;
  return row;
}

/** Payload bytes to the memory node. */
export function outboundBytes(batch: Batch, row: number, memory: SimulatedMemory): number {
  const { kind, bytes } = batch;
  if (kind[row] === AWAIT) {
    return AWAIT_HEAD_BYTES + WORD_BYTES * (awaitEnd(batch, row, memory) - row - 1);
  }
  if (kind[row] === WRITE || kind[row] === CALL) return bytes[row];
  if (kind[row] === CAS) return CAS_OPERAND_BYTES;
  return kind[row] === FAA ? FAA_OPERAND_BYTES : 0;
}

/** Payload bytes of the answer. */
export function inboundBytes(batch: Batch, row: number, memory: SimulatedMemory): number {
  const { kind, bytes } = batch;
  if (kind[row] === AWAIT) {
    let sum = 0;
    for (let read = awaitEnd(batch, row, memory) - 1; read > row; read--) sum += bytes[read];
    return sum;
  }
  if (kind[row] === READ || kind[row] === CALL) return bytes[row];
  return kind[row] === WRITE ? 0 : WORD_BYTES;
}

/** Executes the part of a verb that falls in one 64-byte line of the memory. */
export function performLine(
  memory: SimulatedMemory,
  batch: Batch,
  row: number,
  line: number,
): void {
  const kind = batch.kind[row];
  const address = batch.address[row];
  const scratch = batch.scratch[row];
  const local = batch.offset[row];
  if (kind === CAS) memory.compareAndSwap(address, scratch, local);
  else if (kind === FAA) memory.fetchAndAdd(address, scratch, local);
  else {
    const lead = offsetOf(address) & (LINE_BYTES - 1);
    const from = Math.max(0, line * LINE_BYTES - lead);
    const to = Math.min(batch.bytes[row], (line + 1) * LINE_BYTES - lead);
    if (kind === READ) memory.read(address + from, to - from, scratch, local + from);
    else memory.write(address + from, to - from, scratch, local + from);
  }
}
