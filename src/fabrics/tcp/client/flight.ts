import {
  type Address,
  AWAIT,
  type Batch,
  CALL,
  CAS,
  type Completion,
  FAA,
  PAUSE,
  READ,
  regionOf,
  WRITE,
} from '../../../verbs/index.ts';
import { AWAITED_BYTES_MAX } from '../wire.ts';

/** Regions of the pool are dealt out to the nodes in turn. */
export function nodeOf(address: Address, nodes: number): number {
  return nodes === 1 ? 0 : regionOf(address) % nodes;
}

/**
 * Which orders of the contract a queue pair keeps by itself. Where it does not keep one, a verb
 * waits for the answers to the verbs that it must follow.
 */
export interface PairOrders {
  /** Whether an atomic is executed after the READs before it. */
  readThenAtomic: boolean;
  /** Whether everything else of one batch is executed in the order of the contract. */
  others: boolean;
}

const NOWHERE = -1;
const SEVERAL = -2;

/**
 * Where the verbs end that can be under way together from row `first` on. A batch is one queue pair
 * by contract; over several nodes it needs several, which nothing orders. So a verb that the
 * contract orders behind one on another node waits until that one was answered. A pause stands
 * alone, and calls do not mix with verbs. An AWAIT goes with the READs behind it, in one call.
 */
export function segmentEnd(
  batch: Batch,
  first: number,
  nodes: number,
  orders?: PairOrders,
): number {
  const { kind: kinds } = batch;
  const length = orders === undefined ? batch.length : orderedEnd(batch, first, orders);
  const opening = kinds[first];
  if (opening === PAUSE) return first + 1;
  if (opening === AWAIT) return orders === undefined ? awaitEnd(batch, first, nodes) : first + 1;
  let writes = NOWHERE;
  let others = NOWHERE;
  for (let row = first; row < length; row++) {
    const kind = kinds[row];
    if (kind === PAUSE || kind === AWAIT || (kind === CALL) !== (opening === CALL)) return row;
    if (nodes === 1 || kind === CALL) continue;
    const node = nodeOf(batch.address[row], nodes);
    if (elsewhere(writes, node) || (kind !== WRITE && elsewhere(others, node))) return row;
    if (kind === WRITE) writes = joined(writes, node);
    else others = joined(others, node);
  }
  return length;
}

/** Where the READs end that an AWAIT's node executes for it: short ones, of its own memory. */
function awaitEnd({ kind, address, bytes, length }: Batch, first: number, nodes: number): number {
  const node = nodeOf(address[first], nodes);
  let results = 0;
  let row = first + 1;
  for (; row < length && kind[row] === READ && nodeOf(address[row], nodes) === node; row++) {
    results += bytes[row];
    if (Math.max(results, 8 * (row - first)) > AWAITED_BYTES_MAX) break;
  }
  return row;
}

/** How far verbs go that a queue pair with these orders may be given together. */
function orderedEnd({ kind: kinds, length }: Batch, first: number, orders: PairOrders): number {
  let reads = false;
  let writesOrAtomics = false;
  for (let row = first; row < length; row++) {
    const kind = kinds[row];
    const isAtomic = kind === CAS || kind === FAA;
    if (isAtomic && reads && !orders.readThenAtomic) return row;
    if (!orders.others && (writesOrAtomics || (reads && kind === READ))) return row;
    if (kind === READ) reads = true;
    else if (isAtomic || kind === WRITE) writesOrAtomics = true;
  }
  return length;
}

function elsewhere(nodes: number, node: number): boolean {
  return nodes !== NOWHERE && nodes !== node;
}

function joined(nodes: number, node: number): number {
  return nodes === NOWHERE || nodes === node ? node : SEVERAL;
}

/**
 * A batch on its way: one segment after the other, each on the queue pairs of its nodes. Flights
 * and their parts are used again, so that a batch on its way allocates nothing.
 */
export class Flight {
  batch!: Batch;
  completion: Completion | undefined = undefined;
  /** The segment that is under way. */
  start = 0;
  end = 0;
  /** Parts of the segment that are not answered yet, and what the first failed with. */
  pending = 0;
  error: unknown;
  readonly #parts: Part[] = [];

  begin(batch: Batch, completion: Completion): this {
    this.batch = batch;
    this.completion = completion;
    this.start = 0;
    this.end = 0;
    this.pending = 0;
    this.error = undefined;
    return this;
  }

  /** The `i`th part of the segment, nothing of it sent yet. */
  part(i: number): Part {
    if (i === this.#parts.length) this.#parts.push(new Part(this));
    return this.#parts[i].begin();
  }
}

/** The rows of a flight's segment that go to one node, as far as they are not sent yet. */
export class Part {
  readonly flight: Flight;
  /** The next row, how much of a long one was sent, and where its segment ends. */
  row = 0;
  sent = 0;
  end = 0;
  /** Frames that are not answered yet. */
  frames = 0;

  constructor(flight: Flight) {
    this.flight = flight;
  }

  begin(): this {
    this.row = this.flight.start;
    this.end = this.flight.end;
    this.sent = 0;
    this.frames = 0;
    return this;
  }

  get done(): boolean {
    return this.row >= this.end;
  }
}
