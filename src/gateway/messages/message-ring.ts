import type { Operation } from '../../verbs/index.ts';
import type { GatewayStore } from '../gateway-store.ts';

export type RingStore = Pick<GatewayStore, 'get' | 'set' | 'increment' | 'getMany'>;

/** How many messages stay readable; older ones are overwritten. */
export const RING_SLOTS = 4096;
/** Most bytes of a channel name and its message together. Bounds the memory of the ring. */
export const MESSAGE_BYTES_MAX = 64 * 1024;
/** Frees the memory of messages when no client publishes any more. */
const MESSAGE_TTL_MS = 60_000;
/** How long to wait for a missing message: its writer may have died before it wrote it. */
const MISSING_MS = 1000;
const BATCH = 64;
const BATCH_BYTES = 1024 * 1024;

const NEXT_KEY = 'next';
/** Writer 8 | number 8 | length of the channel's name 4 | name | message. */
const HEADER_BYTES = 20;

/**
 * A ring of messages in a store. A writer takes the next number by `increment` and writes its
 * message to the slot of that number; a reader follows the numbers. It loses messages that are
 * overwritten before it reads them, and those whose writer died before writing.
 */
export class MessageRing {
  /** Messages that this reader has lost. */
  lost = 0;

  readonly #store: RingStore;
  readonly #writer: Buffer;
  /** Number of the last message that was read or skipped. */
  #read = 0;
  /** Since when the next message is missing, or 0. */
  #missingSince = 0;
  /** The last number taken at that time. */
  #missingTo = 0;
  /** Skip missing messages up to this number without waiting. */
  #givenUp = 0;

  /** `writer` is eight random bytes, by which a reader skips its own messages. */
  constructor(store: RingStore, writer: Buffer) {
    this.#store = store;
    this.#writer = writer;
  }

  *append(channel: Buffer, message: Buffer): Operation<void> {
    const number = Number(yield* this.#store.increment(NEXT_KEY, 1n));
    const header = Buffer.alloc(HEADER_BYTES);
    this.#writer.copy(header, 0);
    header.writeBigUInt64LE(BigInt(number), 8);
    header.writeUInt32LE(channel.length, 16);
    const value = Buffer.concat([header, channel, message]);
    yield* this.#store.set(slotOf(number), value, { ttlMs: MESSAGE_TTL_MS });
  }

  /** Starts reading after the message with this number. */
  begin(number: number): void {
    this.#read = number;
    this.#missingSince = 0;
    this.#givenUp = 0;
  }

  /**
   * Delivers messages of other writers in the order of their numbers. Over a network several calls
   * may be in flight; the first to reach a message delivers it.
   */
  *read(use: (channel: Buffer, message: Buffer) => void): Operation<void> {
    const before = this.#read;
    const last = yield* this.last();
    // A deleted counter starts over at 1. Another call may have handled that already.
    if (last < before && this.#read === before) {
      this.#read = 0;
      this.#givenUp = 0;
    }
    const oldest = Math.max(0, last - RING_SLOTS);
    if (this.#read < oldest) {
      this.lost += oldest - this.#read;
      this.#read = oldest;
    }
    while (this.#read < last) {
      const first = this.#read + 1;
      const numbers = Array.from(
        { length: Math.min(BATCH, last - this.#read) },
        (_, i) => first + i,
      );
      const values = yield* this.#store.getMany(numbers.map(slotOf), { maxBytes: BATCH_BYTES });
      for (const [i, value] of values.entries()) {
        if (numbers[i] !== this.#read + 1) continue;
        if (!this.#take(value, last, use)) return;
      }
    }
  }

  /** Takes the next message; false if it is not written yet. */
  #take(
    value: Uint8Array | undefined,
    last: number,
    use: (channel: Buffer, message: Buffer) => void,
  ): boolean {
    const wanted = this.#read + 1;
    const bytes = value && Buffer.from(value.buffer, value.byteOffset, value.byteLength);
    const number = bytes === undefined ? 0 : numberOf(bytes);
    const isMissing = bytes === undefined || number < wanted;
    if (isMissing && !this.#isGivenUp(wanted, last)) return false;
    this.#read = wanted;
    if (!isMissing) this.#missingSince = 0;
    if (bytes === undefined || number !== wanted) {
      this.lost++;
    } else if (!bytes.subarray(0, 8).equals(this.#writer)) {
      const end = HEADER_BYTES + bytes.readUInt32LE(16);
      use(bytes.subarray(HEADER_BYTES, end), bytes.subarray(end));
    }
    return true;
  }

  /** Waits once for all numbers that were taken when the wait began. */
  #isGivenUp(wanted: number, last: number): boolean {
    if (wanted <= this.#givenUp) return true;
    if (this.#missingSince === 0) {
      this.#missingSince = Date.now();
      this.#missingTo = last;
    }
    if (Date.now() - this.#missingSince < MISSING_MS) return false;
    this.#givenUp = this.#missingTo;
    this.#missingSince = 0;
    return true;
  }

  /** The number of the latest message. */
  *last(): Operation<number> {
    const next = yield* this.#store.get(NEXT_KEY);
    const number = next === undefined ? 0 : Number(Buffer.from(next).toString('latin1'));
    return Number.isSafeInteger(number) && number > 0 ? number : 0;
  }
}

function slotOf(number: number): string {
  return `slot:${number % RING_SLOTS}`;
}

/** Returns 0 for bytes that are not a message. */
function numberOf(bytes: Buffer): number {
  if (bytes.length < HEADER_BYTES) return 0;
  const isWhole = bytes.readUInt32LE(16) <= bytes.length - HEADER_BYTES;
  return isWhole ? Number(bytes.readBigUInt64LE(8)) : 0;
}
