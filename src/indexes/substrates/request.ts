import { invariant } from '../../errors.ts';
import type { OperationTiming } from '../../pool/clients/meter.ts';
import {
  type Bytes,
  bytesBound,
  CODEC_ASCII,
  CODEC_BYTES,
  CODEC_UTF8,
  checkKey,
  checkValue,
  decodedLength,
  encodeInto,
} from '../../records/codec.ts';
import { finalMix, HASH_PADDING, hashWords, KeyHash } from '../../records/hash.ts';
import {
  CHECKSUM,
  type ChainPlan,
  FLAG_CHAINED,
  FLAG_TIMED,
  HEADER_BYTES,
  headBytes,
  KEY_BYTES_AND_KIND,
  LINK_BYTES,
  pad8,
  TIMES_BYTES,
  unitsOf,
  VALUE_BYTES,
  VERSION,
  valueOffset,
} from '../../records/layout.ts';
import {
  type Access,
  type Expiry,
  expiresAt,
  flagsOf,
  readExpiry,
  ticksAt,
  UNCHECKED_BYTES,
  usesAt,
  writeTimes,
} from '../../records/times.ts';
import { type Address, Frame, NULL_ADDRESS, type Scratch, UNIT_BYTES } from '../../verbs/index.ts';

/** Slots that one operation can examine, unless its index asks for more. */
export const CANDIDATES_MAX = 512;

/** The further blocks of a long outgoing record, behind `OutgoingRecord.block`. */
export interface OutgoingChain {
  plan: ChainPlan;
  /** Addresses of the pieces that are allocated so far. */
  blocks: Address[];
}

/** The record that an operation writes. Its image, key included, begins at offset 0 of `memory`. */
export class OutgoingRecord {
  readonly memory: Scratch;
  valueBytes = 0;
  /** When it expires; undefined for a record without times. */
  expiry: Expiry | undefined;
  codec = CODEC_BYTES;
  /** Its block in the pool, and whether its WRITE has been posted. */
  block: Address = NULL_ADDRESS;
  isPosted = false;
  /** Whether other clients may have seen it, so that its blocks must be retired, not reused. */
  isExposed = false;
  /** The block of this request that was last linked. */
  written: Address = NULL_ADDRESS;
  /** Lines of its first block; and its further blocks, if it is chained. */
  headUnits = 0;
  chain: OutgoingChain | undefined;
  /** Hash of key and value. The checksum covers it, the lengths and the version. */
  bodyHash = 0;
  /** Its version if it is inserted. An update increments the old record's version. */
  firstVersion = 0;

  constructor(memory: Scratch) {
    this.memory = memory;
  }

  get version(): number {
    return this.memory.i32[VERSION >> 2] >>> 0;
  }

  /** Forgets the blocks, which were linked, retired or given back. */
  forgetBlock(): void {
    if (this.block !== NULL_ADDRESS) this.written = this.block;
    this.block = NULL_ADDRESS;
    this.isPosted = false;
    this.isExposed = false;
    if (this.chain) this.chain.blocks.length = 0;
  }
}

/** The record that an operation found: where it is in local memory, and what its header says. */
export class FoundRecord {
  /** Holds the value. That of a chained record is assembled in memory of its own. */
  memory: Scratch;
  at = 0;
  valueAt = 0;
  valueBytes = 0;
  codec = CODEC_BYTES;
  version = 0;
  flags = 0;
  isChained = false;
  /** Whether it is an inline item of a leaf, whose checksum was verified when it was read. */
  isInline = false;

  constructor(memory: Scratch) {
    this.memory = memory;
  }

  /** Offset in `memory` of the value itself, behind its times; below, its bytes. */
  get contentAt(): number {
    return this.valueAt + timesBytesOf(this.flags);
  }

  get contentBytes(): number {
    return this.valueBytes - timesBytesOf(this.flags);
  }

  /** Describes the record at `at`, whose key has this many bytes. */
  adoptRecord(memory: Scratch, at: number, keyBytes: number): void {
    const { i32 } = memory;
    const kind = i32[(at + KEY_BYTES_AND_KIND) >> 2];
    this.memory = memory;
    this.at = at;
    this.valueAt = at + valueOffset(keyBytes);
    this.valueBytes = i32[(at + VALUE_BYTES) >> 2] >>> 0;
    this.codec = (kind >>> 16) & 0xff;
    this.version = i32[(at + VERSION) >> 2] >>> 0;
    this.flags = kind >>> 24;
    this.isChained = (this.flags & FLAG_CHAINED) !== 0;
    this.isInline = false;
  }

  /** Describes an inline item of a leaf, whose value is at `at`. */
  adoptItem(
    memory: Scratch,
    at: number,
    bytes: number,
    codec: number,
    flags: number,
    version: number,
  ): void {
    this.memory = memory;
    this.at = at;
    this.valueAt = at;
    this.valueBytes = bytes;
    this.codec = codec;
    this.version = version;
    this.flags = flags;
    this.isChained = false;
    this.isInline = true;
  }
}

/**
 * Records to read: those of slots that match the key's fingerprint or, in a walk or a sample, all.
 * For each its address, its lines as its slot says, and its offset in `incoming`.
 */
export class Candidates {
  records = new Float64Array(CANDIDATES_MAX);
  units = new Int32Array(CANDIDATES_MAX);
  at = new Int32Array(CANDIDATES_MAX);
  count = 0;
  /** Whether a record may be longer than its slot can say. */
  mayBeLong = false;

  /** Makes room for this many. Growing loses the offsets in `at`. */
  ensure(count: number): void {
    if (count <= this.at.length) return;
    const { records, units } = this;
    const room = 2 * count;
    this.records = new Float64Array(room);
    this.records.set(records);
    this.units = new Int32Array(room);
    this.units.set(units);
    this.at = new Int32Array(room);
  }
}

/**
 * One operation in flight: its key, encoded and hashed, the record that it writes, the candidates,
 * and the one of them that it found. Reused from operation to operation.
 */
export class Request extends Frame {
  readonly hash = new KeyHash();
  keyBytes = 0;
  readonly record = new OutgoingRecord(this.outgoing);
  readonly found = new FoundRecord(this.incoming);
  readonly candidates = new Candidates();
  readonly timing: OperationTiming = { startedAt: 0, isWrite: false };

  /** Whether the operation unlinked the found record, which may have expired. */
  displaced = false;
  /**
   * Whether it has merged or split a part of the index, which takes as long as several operations.
   */
  hasMerged = false;
  /** How many uses `RecordIo.touch` counts for a read. */
  uses = 1;
  /** A removal spares a record that was used after this time, in ticks (records/times.ts). */
  sparedIfUsedAfter = Number.POSITIVE_INFINITY;
  /** Sum of the words at the last comparison of `lookForChange` (backoff.ts). */
  wordsSum = 0;

  /** Makes room for this many candidates. Growing loses their offsets. */
  ensureCandidates(count: number): void {
    this.candidates.ensure(count);
  }

  /** Adds a record for `visitRecords`, with its lines as its slot says. */
  noteRecord(record: Address, units: number): void {
    const { candidates } = this;
    const i = candidates.count++;
    this.ensureCandidates(i + 1);
    candidates.records[i] = record;
    candidates.units[i] = units;
  }

  /** The address of the record that a search found. */
  get foundAddress(): Address {
    return NULL_ADDRESS;
  }

  /** Whether the outgoing record goes into the index's own table, without a block. */
  get isInTable(): boolean {
    return false;
  }

  /** Encodes and hashes the key; makes room for a value of `valueBound` bytes behind it. */
  setKey(key: Bytes, seed: number, valueBound = 0): void {
    const { outgoing } = this;
    const before = HEADER_BYTES + bytesBound(key) + LINK_BYTES + TIMES_BYTES;
    const room = before + valueBound + 4 * HASH_PADDING;
    if (room > outgoing.u8.length) outgoing.ensure(room);
    this.keyBytes = decodedLength(encodeInto(key, outgoing, HEADER_BYTES, checkKey));
    zeroPad(outgoing, HEADER_BYTES + this.keyBytes);
    this.hash.compute(outgoing.i32, HEADER_BYTES >> 2, this.keyBytes, seed);
    this.record.expiry = undefined;
    this.displaced = false;
    this.uses = 1;
    this.sparedIfUsedAfter = Number.POSITIVE_INFINITY;
    this.record.forgetBlock();
  }

  /**
   * Whether the request is small enough to be reused: one that has grown for a large value is not.
   * Drops the memory of a chained value that it found.
   */
  mayBeKept(bytesMax: number): boolean {
    const { outgoing, incoming } = this;
    this.found.memory = incoming;
    return outgoing.u8.length + incoming.u8.length <= bytesMax;
  }

  /**
   * Writes the value behind the key, with its times, last accessed at `ticks`. Chained records are
   * laid out by record-io.
   */
  setValue(value: Bytes, ticks = 0): void {
    const { outgoing, record } = this;
    const { expiry } = record;
    const start = valueOffset(this.keyBytes);
    const at = expiry === undefined ? start : start + TIMES_BYTES;
    const encoded = encodeInto(value, outgoing, at, checkValue);
    const end = at + decodedLength(encoded);
    record.valueBytes = end - start;
    if (typeof value !== 'string') record.codec = CODEC_BYTES;
    else record.codec = encoded < 0 ? CODEC_UTF8 : CODEC_ASCII;
    if (expiry !== undefined) writeTimes(outgoing, start, expiry, ticks);
    const { u8 } = outgoing;
    for (let i = end; i < start + pad8(record.valueBytes); i++) u8[i] = 0;
  }

  /** Completes the header of the outgoing record. The value is contiguous behind the key. */
  seal(version: number, chained = 0): void {
    const { record, keyBytes } = this;
    const { valueBytes } = record;
    const { i32 } = this.outgoing;
    const flags = chained | flagsOf(record.expiry);
    const kind = keyBytes | (record.codec << 16) | (flags << 24);
    const body = bodyHash(i32, valueOffset(keyBytes), valueBytes, flags, this.hash.h4);
    i32[VALUE_BYTES >> 2] = valueBytes;
    i32[KEY_BYTES_AND_KIND >> 2] = kind;
    i32[VERSION >> 2] = version;
    i32[CHECKSUM >> 2] = recordChecksum(body, valueBytes, kind, version);
    record.bodyHash = body;
    record.firstVersion = version >>> 0;
  }

  /** Gives the sealed record another version, without hashing the value again. */
  reseal(version: number): void {
    const { bodyHash, valueBytes } = this.record;
    const { i32 } = this.outgoing;
    const kind = i32[KEY_BYTES_AND_KIND >> 2];
    i32[VERSION >> 2] = version;
    i32[CHECKSUM >> 2] = recordChecksum(bodyHash, valueBytes, kind, version);
  }

  /** Whether the record at `at` of `incoming` has this key; if so, it becomes the found one. */
  matches(at: number): boolean {
    const incoming = this.incoming.i32;
    const kind = incoming[(at + KEY_BYTES_AND_KIND) >> 2];
    if ((kind & 0xffff) !== this.keyBytes) return false;
    const ours = this.outgoing.i32;
    const words = pad8(this.keyBytes) >> 2;
    const first = HEADER_BYTES >> 2;
    const theirs = (at + HEADER_BYTES) >> 2;
    for (let i = 0; i < words; i++) if (incoming[theirs + i] !== ours[first + i]) return false;
    this.found.adoptRecord(this.incoming, at, this.keyBytes);
    return true;
  }

  /**
   * Takes key and record from `at` of a scratch: for walks, which meet keys instead of asking for
   * one.
   */
  adoptKey(scratch: Scratch, at: number, keyBytes: number, seed: number): void {
    this.adoptKeyAt(scratch, at + HEADER_BYTES, keyBytes, seed);
    this.found.adoptRecord(scratch, at, keyBytes);
  }

  /** Makes room for a key in `outgoing`. Growing loses its content. */
  makeRoomForKey(keyBytes: number): void {
    this.outgoing.ensure(HEADER_BYTES + keyBytes + 4 * HASH_PADDING);
  }

  /** Takes the key at `at` of a scratch, which is zero-padded to 8 bytes. */
  adoptKeyAt(scratch: Scratch, at: number, keyBytes: number, seed: number): void {
    this.adoptKeyBytes(scratch, at, keyBytes);
    zeroPad(this.outgoing, HEADER_BYTES + keyBytes);
    this.hash.compute(this.outgoing.i32, HEADER_BYTES >> 2, keyBytes, seed);
  }

  /** The same without the hash, which visitors of verified items do not need. */
  adoptKeyBytes(scratch: Scratch, at: number, keyBytes: number): void {
    this.makeRoomForKey(keyBytes);
    const { i32 } = this.outgoing;
    // By words, because creating a view of the key would cost more.
    const from = at >> 2;
    const words = pad8(keyBytes) >> 2;
    for (let i = 0; i < words; i++) i32[(HEADER_BYTES >> 2) + i] = scratch.i32[from + i];
    this.keyBytes = keyBytes;
  }

  /**
   * Takes over the record that another request of the same key has found: its first block, of
   * `units` lines or more, as its slot says.
   */
  takeFoundRecord(from: Request, units: number): void {
    invariant(from.keyBytes === this.keyBytes, "a request takes over another key's record");
    const longest = unitsOf(headBytes(from.keyBytes));
    const { u8 } = from.incoming;
    const end = Math.min(u8.length, from.found.at + Math.max(units, longest) * UNIT_BYTES);
    this.incoming.ensure(end - from.found.at);
    this.incoming.u8.set(u8.subarray(from.found.at, end), 0);
    this.matches(0);
  }

  /** Makes the record that another request of the key has written the found one. */
  takeOutgoing({ outgoing, keyBytes, record }: Request): void {
    const bytes = valueOffset(keyBytes) + pad8(record.valueBytes);
    this.incoming.ensure(bytes);
    this.incoming.u8.set(outgoing.u8.subarray(0, bytes), 0);
    invariant(this.matches(0), "a request takes over another key's record");
    // Here its value is contiguous.
    this.found.isChained = false;
  }

  /** Whether the found record, whose value is contiguous by now, matches its checksum. */
  verifies(): boolean {
    const { found } = this;
    if (found.isInline) return true;
    const { at, valueAt, valueBytes, flags, version } = found;
    const header = this.incoming.i32;
    const kind = header[(at + KEY_BYTES_AND_KIND) >> 2];
    const { i32 } = found.memory;
    if ((valueAt + pad8(valueBytes)) >> 2 > i32.length) return false;
    if (valueBytes < timesBytesOf(flags)) return false;
    const body = bodyHash(i32, valueAt, valueBytes, flags, this.hash.h4);
    const expected = recordChecksum(body, valueBytes, kind, version);
    return header[(at + CHECKSUM) >> 2] === expected;
  }

  /** Offset in `timesIn` of the found record's times; -1 if it has none. */
  get timesAt(): number {
    const { found } = this;
    if ((found.flags & FLAG_TIMED) === 0) return -1;
    if (found.isInline) return found.valueAt;
    const start = found.at + valueOffset(this.keyBytes);
    return found.isChained ? start + LINK_BYTES : start;
  }

  get timesIn(): Scratch {
    return this.found.isInline ? this.found.memory : this.incoming;
  }

  /** The found record's expiry: undefined when it has no times or never expires. */
  get foundExpiry(): Expiry | undefined {
    const at = this.timesAt;
    return at < 0 ? undefined : readExpiry(this.timesIn, at, this.found.flags);
  }

  /** Offset in `timesIn` of the found record's access word; -1 if it has none. */
  get accessAt(): number {
    return this.timesAt;
  }

  /** When the found record was used last, in ticks; 0 when it has no times. */
  get foundTicks(): number {
    const at = this.accessAt;
    return at < 0 ? 0 : ticksAt(this.timesIn, at);
  }

  /** Reads when the found record, which has times, was used last, and how often. */
  readAccess(access: Access): void {
    const { timesIn, accessAt } = this;
    access.ticks = ticksAt(timesIn, accessAt);
    access.uses = usesAt(timesIn, accessAt);
  }

  /** When the outgoing record expires if no client uses it before; infinity for never. */
  get outgoingExpiresAt(): number {
    const { outgoing, keyBytes } = this;
    const { expiry } = this.record;
    if (expiry === undefined) return Number.POSITIVE_INFINITY;
    return expiresAt(outgoing, valueOffset(keyBytes), flagsOf(expiry));
  }

  /** When the found record expires, in milliseconds since 1970; infinity for never. */
  get foundExpiresAt(): number {
    const at = this.timesAt;
    return at < 0 ? Number.POSITIVE_INFINITY : expiresAt(this.timesIn, at, this.found.flags);
  }
}

/**
 * Bytes of the times in front of a value. A function, because V8 calls its runtime for each access
 * to a private getter.
 */
function timesBytesOf(flags: number): number {
  return (flags & FLAG_TIMED) === 0 ? 0 : TIMES_BYTES;
}

/** The hash of a value with its times, except the access word, which changes in place. */
function bodyHash(i32: Int32Array, at: number, bytes: number, flags: number, seed: number): number {
  const skipped = (flags & FLAG_TIMED) === 0 ? 0 : UNCHECKED_BYTES;
  return hashWords(i32, (at + skipped) >> 2, (pad8(bytes) - skipped) >> 2, seed);
}

/** Writes zeros behind a key, enough to hash it and to pad it in a record. */
function zeroPad({ u8, i32 }: Scratch, end: number): void {
  let at = end;
  while ((at & 3) !== 0) u8[at++] = 0;
  for (let word = at >> 2; word < (at + HASH_PADDING) >> 2; word++) i32[word] = 0;
}

export function recordChecksum(body: number, bytes: number, kind: number, version: number): number {
  return finalMix(body ^ bytes ^ Math.imul(kind, 0x9e3779b1) ^ Math.imul(version, 0x85ebca77));
}
