import {
  CAS,
  FAA,
  offsetOf,
  READ,
  regionOf,
  type Scratch,
  WordArray,
  WRITE,
} from '../../../verbs/index.ts';
import { nodeOf, type Part } from '../../tcp/client/flight.ts';
import { type Handle, isFailure, type Pending, type UcxLibrary } from '../binding/library.ts';
import {
  ATOMIC_ADD,
  ATOMIC_COMPARE_SWAP,
  Pinned,
  REQUEST,
  REQUEST_ATOMIC,
  WORDS_OF_8,
} from '../binding/structs.ts';
import type { UcxEndpoint } from '../binding/worker.ts';
import type { BounceRing } from './bounce-ring.ts';
import type { PostedGroup } from './posted-group.ts';

/**
 * The longest verb in one message if a processor executes verbs; a multiple of 64. UCX would cut a
 * longer one, maybe within a word.
 */
const PIECE_BYTES_BY_MESSAGE = 4096;
const PIECE_BYTES_BY_DEVICE = 64 * 1024;
/**
 * For a power of two up to this many bytes, `memcpy` writes each word once. A word that is written
 * twice could undo a CAS in between by a process that maps the memory.
 */
const ONCE_BYTES_MAX = 128;

/** The address and key of a piece of a node's memory. */
export interface RemoteMemory {
  address: number;
  key: Handle;
}

/** How verbs are cut for a node. */
export interface VerbShape {
  node: number;
  nodes: number;
  regionBytes: number;
  pieceBytes: number;
  /** Whether to cut WRITEs so that each word is written once. */
  writesOnce: boolean;
}

export function pieceBytesFor(atomics: 'cpu' | 'device'): number {
  return atomics === 'cpu' ? PIECE_BYTES_BY_MESSAGE : PIECE_BYTES_BY_DEVICE;
}

/** The length of the next piece of a WRITE that is cut. */
export function pieceOf(left: number, { pieceBytes, writesOnce }: VerbShape): number {
  if (!writesOnce) return Math.min(left, pieceBytes);
  return Math.min(2 ** Math.floor(Math.log2(left)), ONCE_BYTES_MAX);
}

/** UCX refused to post a verb. */
export class PostFailure extends Error {
  override readonly name = 'PostFailure';
  readonly status: number;

  constructor(status: number) {
    super(`status ${status}`);
    this.status = status;
  }
}

/** Posts verbs to one node, by way of a bounce ring. */
export class VerbPoster {
  readonly shape: VerbShape;
  readonly #ucx: UcxLibrary;
  readonly #endpoint: UcxEndpoint;
  /** The known regions of the node, in order. It may have more by now. */
  readonly regions: RemoteMemory[];
  readonly #ring: BounceRing;
  readonly #local: Scratch;
  /** The request of an atomic. UCX reads it before it returns, so one can be reused. */
  readonly #atomic: Pinned;

  constructor(
    ucx: UcxLibrary,
    endpoint: UcxEndpoint,
    regions: RemoteMemory[],
    ring: BounceRing,
    shape: VerbShape,
  ) {
    this.#ucx = ucx;
    this.#endpoint = endpoint;
    this.regions = regions;
    this.#ring = ring;
    this.shape = shape;
    this.#local = viewsOf(ring.memory);
    this.#atomic = new Pinned(ucx, REQUEST.bytes)
      .half(REQUEST.mask, REQUEST_ATOMIC)
      .word(REQUEST.datatype, WORDS_OF_8);
  }

  /** The first verb of the part that is beyond the memory of this node, if any. */
  beyond({ flight, row }: Part): number | undefined {
    const { batch, end } = flight;
    const { node, nodes, regionBytes } = this.shape;
    for (let at = row; at < end; at++) {
      const address = batch.address[at];
      if (nodeOf(address, nodes) !== node) continue;
      const offset = offsetOf(address);
      const isThere = Math.floor(regionOf(address) / nodes) < this.regions.length;
      const isAligned = batch.kind[at] === WRITE || (offset & 7) === 0;
      if (!isThere || !isAligned || offset + batch.bytes[at] > regionBytes) return at;
    }
    return undefined;
  }

  /**
   * Posts the rest of a part, as far as the ring has room. Returns whether that was all. Raises
   * PostFailure.
   */
  post(part: Part, group: PostedGroup): boolean {
    const { batch, end } = part.flight;
    const { node, nodes } = this.shape;
    while (part.row < end) {
      const { row } = part;
      if (nodes === 1 || nodeOf(batch.address[row], nodes) === node) {
        const kind = batch.kind[row];
        const isWhole =
          kind === CAS || kind === FAA
            ? this.#postAtomic(part, kind, group)
            : this.#postCopy(part, kind, group);
        if (!isWhole) return false;
      }
      part.row++;
      part.sent = 0;
    }
    return true;
  }

  #postCopy(part: Part, kind: number, group: PostedGroup): boolean {
    const { row } = part;
    const { batch } = part.flight;
    const scratch = batch.scratch[row];
    const bytes = batch.bytes[row];
    const { address, key } =
      this.regions[Math.floor(regionOf(batch.address[row]) / this.shape.nodes)];
    const start = address + offsetOf(batch.address[row]);
    const { handle } = this.#endpoint;
    while (part.sent < bytes) {
      const left = bytes - part.sent;
      const length =
        kind === READ ? Math.min(left, this.shape.pieceBytes) : pieceOf(left, this.shape);
      const from = this.#ring.take(length);
      if (from < 0) return false;
      const at = batch.offset[row] + part.sent;
      const local = this.#ring.memory.address + from;
      const remote = start + part.sent;
      if (kind === READ) {
        group.add(scratch, at, from, length);
        succeeded(this.#ucx.get(handle, local, length, remote, key));
      } else {
        copyBytes(scratch, at, this.#local, from, length);
        succeeded(this.#ucx.put(handle, local, length, remote, key));
      }
      part.sent += length;
    }
    return true;
  }

  /** The ring holds the operands; the reply overwrites what follows the first. */
  #postAtomic(part: Part, kind: number, group: PostedGroup): boolean {
    const from = this.#ring.take(16);
    if (from < 0) return false;
    const { batch } = part.flight;
    const scratch = batch.scratch[part.row];
    const at = batch.offset[part.row];
    const address = batch.address[part.row];
    const operands = kind === CAS ? 16 : 8;
    copyBytes(scratch, at, this.#local, from, operands);
    const operation = kind === CAS ? ATOMIC_COMPARE_SWAP : ATOMIC_ADD;
    const region = this.regions[Math.floor(regionOf(address) / this.shape.nodes)];
    const local = this.#ring.memory.address + from;
    // The old value follows the first operand; for a CAS it replaces the desired value.
    this.#atomic.word(REQUEST.replyBuffer, local + 8);
    group.add(scratch, at + operands, from + 8, 8);
    const { handle } = this.#endpoint;
    const request = this.#atomic.address;
    const remote = region.address + offsetOf(address);
    const pending = this.#ucx.atomic(handle, operation, local, 1, remote, region.key, request);
    if (pending === 0) return true;
    succeeded(pending);
    // The flush reports its completion, so free its request.
    this.#ucx.requestFree(pending);
    return true;
  }

  /** Copies the results of a group to their scratches. */
  place(group: PostedGroup): void {
    for (let i = 0; i < group.length; i++) {
      copyBytes(this.#local, group.from[i], group.scratch(i), group.to[i], group.bytes[i]);
    }
  }
}

/** Raises PostFailure for an error; a request, or the status "in progress", is not one. */
function succeeded(posted: Pending): void {
  if (isFailure(posted)) throw new PostFailure(posted);
}

type Bytes = Pick<Scratch, 'u8' | 'f64'>;

function viewsOf({ u8 }: Pinned): Scratch {
  const memory = u8.buffer as ArrayBuffer;
  return {
    u8,
    i32: new Int32Array(memory),
    f64: new WordArray(memory),
    i64: new BigInt64Array(memory),
  } as Scratch;
}

/** Both offsets are multiples of 8, except for a WRITE of single bytes of a word. */
function copyBytes(from: Bytes, start: number, to: Bytes, at: number, bytes: number): void {
  if (((start | at | bytes) & 7) === 0 && bytes <= 256) {
    const { f64: source } = from;
    const { f64: target } = to;
    const words = bytes >> 3;
    for (let i = 0, a = start >> 3, b = at >> 3; i < words; i++) target[b + i] = source[a + i];
    return;
  }
  to.u8.set(from.u8.subarray(start, start + bytes), at);
}
