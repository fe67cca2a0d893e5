import { AWAIT, type Batch, PAUSE, WRITE } from '../../src/verbs/index.ts';
import type { LocalDoor } from './local-door.ts';
import type { SimulatedMemory } from './memory.ts';
import { awaitEnd } from './verb-parts.ts';

const NOWHERE = -1;
const SEVERAL = -2;

/**
 * The end of the rows that can be sent together, starting with `first`. A pause ends them. With
 * `ordered`, so does a verb that the contract orders behind a verb on another memory node: no queue
 * pair orders the two, so the client must wait for the first.
 */
export function segmentEnd(
  batch: Batch,
  first: number,
  memory: SimulatedMemory,
  ordered: boolean,
): number {
  let writes = NOWHERE;
  let others = NOWHERE;
  for (let row = first; row < batch.length; row++) {
    const kind = batch.kind[row];
    if (kind === PAUSE) return row;
    if (kind === AWAIT) return row > first && memory.nodes > 1 ? row : awaitEnd(batch, row, memory);
    if (!ordered || memory.nodes === 1) continue;
    const node = memory.nodeOf(batch.address[row]);
    if (elsewhere(writes, node) || (kind !== WRITE && elsewhere(others, node))) return row;
    if (kind === WRITE) writes = joined(writes, node);
    else others = joined(others, node);
  }
  return batch.length;
}

/**
 * The same for a thread beside a memory node's memory. CPU and NIC take turns: neither starts its
 * verbs before the other has finished those ahead of them. So only verbs of one of the two, on one
 * node, are sent together.
 */
export function sameDoorEnd(
  batch: Batch,
  first: number,
  memory: SimulatedMemory,
  door: LocalDoor,
): number {
  const isLocal = door.leadsTo(batch, first);
  if (batch.kind[first] === AWAIT) return isLocal ? first + 1 : awaitEnd(batch, first, memory);
  const node = memory.nodeOf(batch.address[first]);
  for (let row = first; row < batch.length; row++) {
    if (batch.kind[row] >= PAUSE || door.leadsTo(batch, row) !== isLocal) return row;
    if (memory.nodeOf(batch.address[row]) !== node) return row;
  }
  return batch.length;
}

function elsewhere(nodes: number, node: number): boolean {
  return nodes !== NOWHERE && nodes !== node;
}

function joined(nodes: number, node: number): number {
  return nodes === NOWHERE || nodes === node ? node : SEVERAL;
}
