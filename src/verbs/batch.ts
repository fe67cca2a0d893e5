import type { Address } from './address.ts';
import type { Scratch } from './scratch.ts';

export const READ = 0;
export const WRITE = 1;
export const CAS = 2;
export const FAA = 3;
export const PAUSE = 4;
/** Two-sided: a core of the memory node answers. Only fabrics with such a node have it. */
export const CALL = 5;
/** No verb: a wait for a word, which a fabric may cut as short as it likes. */
export const AWAIT = 6;

/** Local words of a CAS: expected, desired, and the old value that the verb fills in. */
export const CAS_BYTES = 24;
/** Local words of a FAA: the addend, and the old value that the verb fills in. */
export const FAA_BYTES = 16;
/** Local head of a CALL: bytes of what follows it, and the method (in a reply, 0). */
export const CALL_HEAD_BYTES = 8;

/** Before a batch grows. V8 keeps arrays of up to 64 bytes on its own heap, which costs a fifth. */
const ROWS = 8;

/**
 * One doorbell: an ordered list of verbs on one queue pair, one round trip.
 *
 * Ordering contract: a WRITE is ordered before everything after it, a READ or atomic before every
 * later READ or atomic; a READ or atomic is NOT ordered before a later WRITE. READ and WRITE are
 * atomic only per aligned 8-byte word; their 64-byte lines may be seen in any order. CAS and FAA
 * act on aligned 8-byte words.
 *
 * A batch is reused for every step of an operation; verbs are parallel arrays so that posting one
 * allocates nothing. Local data must stay untouched until the batch has been executed.
 */
export class Batch {
  length = 0;
  /** Whether the operation that yields it goes on only when it was executed: see unwaited.ts. */
  isWaitedFor = true;
  kind = new Uint8Array(ROWS);
  address = new Float64Array(ROWS);
  bytes = new Int32Array(ROWS);
  /** Byte offset into the scratch of the same row. */
  offset = new Int32Array(ROWS);
  scratch: Scratch[] = [];

  clear(): this {
    this.length = 0;
    return this;
  }

  /** Copies `bytes` (a multiple of 8) from the pool into the scratch. */
  read(address: Address, bytes: number, scratch: Scratch, offset: number): this {
    return this.#post(READ, address, bytes, scratch, offset);
  }

  /** Copies `bytes` (a multiple of 8, or a few single bytes) from the scratch into the pool. */
  write(address: Address, bytes: number, scratch: Scratch, offset: number): this {
    return this.#post(WRITE, address, bytes, scratch, offset);
  }

  /** Compare-and-swap: scratch words [expected, desired, old]; see `swapped`. */
  cas(address: Address, scratch: Scratch, offset: number): this {
    return this.#post(CAS, address, 8, scratch, offset);
  }

  /** Fetch-and-add: scratch words [addend, old]. */
  faa(address: Address, scratch: Scratch, offset: number): this {
    return this.#post(FAA, address, 8, scratch, offset);
  }

  /**
   * A two-sided call to the node of `address`. At `offset` are two 32-bit words, the request's
   * length in bytes and the method, then the request. The reply replaces it in the same form and
   * may be as long as `bytes`, which counts the two words. A call begins after the verbs before it.
   */
  call(address: Address, bytes: number, scratch: Scratch, offset: number): this {
    return this.#post(CALL, address, bytes, scratch, offset);
  }

  /**
   * No verb: waits until the word at `address` no longer holds what stands at `offset`, or until so
   * many microseconds have passed. A fabric may end it earlier, and one that cannot wait ends it at
   * once. So a protocol reads the word behind it, and may find it unchanged. It is ordered as a
   * READ. With a node that waits, it and the READs behind it are one message and its answer.
   */
  awaitChange(address: Address, microseconds: number, scratch: Scratch, offset: number): this {
    return this.#post(AWAIT, address, microseconds, scratch, offset);
  }

  /** No verb: lets time pass, so that a protocol can wait for another client on every fabric. */
  pause(microseconds: number, scratch: Scratch): this {
    return this.#post(PAUSE, 0, microseconds, scratch, 0);
  }

  /** Adds the verbs of another batch, with their local data where it is. */
  append({ kind, address, bytes, offset, scratch, length }: Batch): this {
    for (let row = 0; row < length; row++) {
      this.#post(kind[row], address[row], bytes[row], scratch[row], offset[row]);
    }
    return this;
  }

  #post(kind: number, address: Address, bytes: number, scratch: Scratch, offset: number): this {
    const row = this.length;
    if (row === this.kind.length) this.#grow();
    this.kind[row] = kind;
    this.address[row] = address;
    this.bytes[row] = bytes;
    this.offset[row] = offset;
    this.scratch[row] = scratch;
    this.length = row + 1;
    return this;
  }

  #grow(): void {
    const capacity = 2 * this.kind.length;
    const kind = new Uint8Array(capacity);
    const address = new Float64Array(capacity);
    const bytes = new Int32Array(capacity);
    const offset = new Int32Array(capacity);
    kind.set(this.kind);
    address.set(this.address);
    bytes.set(this.bytes);
    offset.set(this.offset);
    this.kind = kind;
    this.address = address;
    this.bytes = bytes;
    this.offset = offset;
  }
}

/** Whether the CAS whose local words are at `offset` found what it expected. */
export function swapped(scratch: Scratch, offset: number): boolean {
  const { i32 } = scratch;
  const word = offset >> 2;
  return i32[word] === i32[word + 4] && i32[word + 1] === i32[word + 5];
}
