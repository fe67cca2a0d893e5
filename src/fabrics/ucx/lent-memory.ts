import { NODE_REGIONS_MAX, WireError } from '../tcp/wire.ts';
import type { Registration, UcxContext } from './binding/context.ts';
import { UcxWorker } from './binding/worker.ts';
import { type Transports, transportsOf } from './transports.ts';

/** Version of this message, which must be the same at node and client. */
const FORMAT = 1;
const HEAD_BYTES = 24;
const KEY_HEAD_BYTES = 24;
/** Longest address or key. UCX packs far fewer bytes. */
const BYTES_MAX = 64 * 1024;
const MAPPED_BY_OTHERS = 1;

/** A piece of a node's memory, and a session's key for it. */
export interface LentPiece {
  address: number;
  bytes: number;
  key: Uint8Array;
}

/** A node's answer to ATTACH. */
export interface LentMemory {
  transports: Transports;
  /** Whether processes may also map the memory, as the node's file. */
  isMapped: boolean;
  /** Address of the worker, which serves only this session. */
  workerAddress: Uint8Array;
  /** Memory for the client's tests of the transport. */
  trial: LentPiece;
  regions: readonly LentPiece[];
}

/**
 * ```
 * 0   format, flags, bytes of the transports' names, of the device, of the worker's address,
 *     number of pieces: 32 bits each
 * 24  names | device | worker address | pieces, each: address 64, bytes 64, key's bytes 64, key
 * ```
 * Every part begins at a multiple of 8.
 */
export function writeLentMemory(lent: LentMemory): Uint8Array {
  const { transports, workerAddress, isMapped } = lent;
  const names = new TextEncoder().encode(transports.names);
  const device = new TextEncoder().encode(transports.device ?? '');
  const pieces = [lent.trial, ...lent.regions];
  const texts = [names, device, workerAddress];
  let bytes = HEAD_BYTES;
  for (const text of texts) bytes += padded(text.length);
  for (const { key } of pieces) bytes += KEY_HEAD_BYTES + padded(key.length);
  const message = new Uint8Array(bytes);
  const view = new DataView(message.buffer);
  const flags = isMapped ? MAPPED_BY_OTHERS : 0;
  const head = [FORMAT, flags, ...texts.map((text) => text.length), pieces.length];
  for (const [i, word] of head.entries()) view.setUint32(4 * i, word, true);
  let at = HEAD_BYTES;
  for (const text of texts) {
    message.set(text, at);
    at += padded(text.length);
  }
  for (const { address, bytes: length, key } of pieces) {
    view.setFloat64(at, address, true);
    view.setFloat64(at + 8, length, true);
    view.setUint32(at + 16, key.length, true);
    message.set(key, at + KEY_HEAD_BYTES);
    at += KEY_HEAD_BYTES + padded(key.length);
  }
  return message;
}

/**
 * Reads the message of a node with at least `regions` regions: its file may have grown. Raises
 * WireError, and what `transportsOf` raises.
 */
export function readLentMemory(
  message: Uint8Array,
  regions: number,
  regionBytes: number,
): LentMemory {
  const reader = new Reader(message);
  const [format, flags, ...lengths] = reader.words(6);
  if (format !== FORMAT) throw new WireError(`the node lends memory in format ${format}`);
  const pieces = lengths.pop() as number;
  const isCount = pieces > regions && pieces <= NODE_REGIONS_MAX + 1;
  if (!isCount) throw new WireError(`${pieces} keys for ${regions} regions`);
  const [names, device, workerAddress] = lengths.map((length) => reader.bytes(length));
  const read = Array.from({ length: pieces }, () => reader.piece());
  const [trial, ...lent] = read;
  if (lent.some(({ bytes }) => bytes !== regionBytes)) {
    throw new WireError('keys for regions of another size');
  }
  return {
    transports: transportsOf(text(names), device.length === 0 ? undefined : text(device)),
    isMapped: (flags & MAPPED_BY_OTHERS) !== 0,
    workerAddress,
    trial,
    regions: lent,
  };
}

class Reader {
  readonly #message: Uint8Array;
  readonly #view: DataView;
  #at = 0;

  constructor(message: Uint8Array) {
    this.#message = message;
    this.#view = new DataView(message.buffer, message.byteOffset, message.length);
  }

  /** Reads words of 32 bits. */
  words(count: number): number[] {
    const at = this.#skip(4 * count);
    return Array.from({ length: count }, (_, i) => this.#view.getUint32(at + 4 * i, true));
  }

  bytes(length: number): Uint8Array {
    if (length > BYTES_MAX) throw new WireError(`${length} bytes of an address or a key`);
    const at = this.#skip(padded(length));
    return this.#message.slice(at, at + length);
  }

  piece(): LentPiece {
    const at = this.#skip(KEY_HEAD_BYTES);
    const address = this.#view.getFloat64(at, true);
    const bytes = this.#view.getFloat64(at + 8, true);
    const length = this.#view.getUint32(at + 16, true);
    const isRange = Number.isSafeInteger(address + bytes) && address > 0 && bytes > 0;
    if (!isRange || length === 0) throw new WireError('a key for no memory');
    return { address, bytes, key: this.bytes(length) };
  }

  #skip(length: number): number {
    const at = this.#at;
    this.#at += length;
    if (this.#at > this.#message.length) throw new WireError('an answer cut short');
    return at;
  }
}

function padded(bytes: number): number {
  return (bytes + 7) & ~7;
}

function text(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes);
}

/** Bytes in which a client tests the transport before it touches the pool. */
const TRIAL_BYTES = 4096;

/** The memory that a node lends to a session, as bytes that do not move. */
export interface Memory {
  regions: readonly Uint8Array[];
  isMapped: boolean;
}

/**
 * The worker and registrations by which one session reaches the memory. Once they are closed, the
 * client reaches nothing, whatever keys and addresses it has kept: the node's processor executes no
 * more messages for the worker, and a card has neither the queue pair nor the key. Other sessions
 * are not affected.
 */
export class ServedSession {
  readonly worker: UcxWorker;
  readonly #registrations: Registration[] = [];
  readonly #pieces: LentPiece[] = [];
  // Must stay reachable while it is registered.
  readonly #trial = new Uint8Array(new ArrayBuffer(TRIAL_BYTES));
  /** The time of its last work, in microseconds of the loop's clock. */
  workedAt = 0;
  /** Whether its descriptor signals new work. */
  isArmed = false;

  constructor(context: UcxContext) {
    this.worker = new UcxWorker(context);
  }

  /**
   * Registers the memory, or what was added to it since, and returns the message for the client.
   * Raises SW_UNSUPPORTED.
   */
  lend(context: UcxContext, { regions, isMapped }: Memory, transports: Transports): Uint8Array {
    for (const bytes of [this.#trial, ...regions].slice(this.#pieces.length)) {
      const registration = context.register(bytes);
      this.#registrations.push(registration);
      const { address } = registration;
      this.#pieces.push({ address, bytes: bytes.length, key: registration.packKey() });
    }
    const [trial, ...lent] = this.#pieces;
    const { address: workerAddress } = this.worker;
    return writeLentMemory({ transports, isMapped, workerAddress, trial, regions: lent });
  }

  /** From now on no verb of this session is executed. */
  close(): void {
    this.worker.close();
    for (const registration of this.#registrations.splice(0)) registration.release();
  }
}
