import { invariant, StepwellError } from '../../errors.ts';
import type { Reclamation } from '../../pool/clients/reclamation.ts';
import type { Clock } from '../../pool/clock.ts';
import type { Allocator } from '../../pool/memory/allocator.ts';
import type { Pool } from '../../pool/pool.ts';
import type { UnwaitedWrites } from '../../pool/unwaited-writes.ts';
import { type Bytes, bytesBound } from '../../records/codec.ts';
import {
  type ChainPlan,
  CONTINUATION_HEADER_BYTES,
  FLAG_CHAINED,
  FLAG_SLIDING,
  fitsOneBlock,
  HEADER_BYTES,
  headBytes,
  headUnitsOf,
  KEY_BYTES_AND_KIND,
  LINK_BYTES,
  pad8,
  planChain,
  SLOT_SIZE_CLASS,
  SLOT_UNITS_MAX,
  sizeClassOf,
  unitsOf,
  VALUE_BYTES,
  VALUE_BYTES_MAX,
  valueOffset,
} from '../../records/layout.ts';
import {
  AccessClock,
  type Expiry,
  highOfAccess,
  lowOfAccess,
  spanOf,
  usedOnceMore,
  usesAt,
} from '../../records/times.ts';
import {
  type Address,
  Batch,
  NULL_ADDRESS,
  type Operation,
  readInteger,
  Scratch,
  setWord,
  UNIT_BYTES,
  writeInteger,
} from '../../verbs/index.ts';
import type { OutgoingChain, Request } from './request.ts';

/** A read restarts a sliding expiry only after 1/SLIDE_PRECISION of its span has passed. */
const SLIDE_PRECISION = 64;

/** The parts of a pool that records need. */
export type PoolOfRecords = Pick<Pool, 'allocator' | 'reclamation' | 'clock' | 'unwaited'>;

/** A block of a record, to be freed. */
interface Block {
  address: Address;
  units: number;
}

/** The lengths of an unlinked record. */
export interface UnlinkedRecord {
  readonly keyBytes: number;
  readonly found: { readonly valueBytes: number };
}

/** Notes uses of records that are in an index's tables, without blocks of their own. */
export interface UsesInTable {
  touch(request: Request): Operation<void>;
  inheritUses(request: Request): Operation<void>;
}

/**
 * Records as all indexes keep them: one block, or a chain for a value that a slot's length field
 * cannot express (RACE section 3.3).
 */
export class RecordIo {
  readonly #allocator: Allocator;
  readonly #reclamation: Reclamation;
  readonly #clock: Clock;
  readonly #accessClock: AccessClock;
  readonly #unwaited: UnwaitedWrites;
  /** The store's number in the catalog. */
  readonly catalog: number;
  /** Seed for hashing keys. */
  readonly seed: number;
  /** Set by an index that has records with `Request.foundInline` or `isInTable`. */
  inTable: UsesInTable | undefined;
  /** Sizes of the blocks that hold the index itself, and no records. */
  tableUnits: () => readonly number[] = () => [];

  constructor(pool: PoolOfRecords, catalog: number, seed: number) {
    const { allocator, reclamation, clock, unwaited } = pool;
    this.#allocator = allocator;
    this.#reclamation = reclamation;
    this.#clock = clock;
    this.#accessClock = new AccessClock(clock);
    this.#unwaited = unwaited;
    this.catalog = catalog;
    this.seed = seed;
  }

  /** Whether the found record has expired. Every operation then treats its key as absent. */
  isExpired(request: Request): boolean {
    const at = request.foundExpiresAt;
    return at !== Number.POSITIVE_INFINITY && this.#clock.now() >= at;
  }

  /** Whether the outgoing record has already expired. */
  isPast(request: Request): boolean {
    return this.#clock.now() >= request.outgoingExpiresAt;
  }

  /** Whether a read extends the found record's expiry; not if another read has just done so. */
  slides(request: Request): boolean {
    if ((request.found.flags & FLAG_SLIDING) === 0) return false;
    const span = spanOf(request.timesIn, request.timesAt);
    return request.foundExpiresAt - this.#clock.now() < span - span / SLIDE_PRECISION;
  }

  /** Until when reads neither find the record expired nor, if `mayExtend`, extend its expiry. */
  unchangedUntil(request: Request, mayExtend: boolean): number {
    const end = request.foundExpiresAt;
    if (!mayExtend || (request.found.flags & FLAG_SLIDING) === 0) return end;
    const span = spanOf(request.timesIn, request.timesAt);
    return end - span + span / SLIDE_PRECISION;
  }

  /**
   * Notes that the found record was used, which restarts a sliding expiry. Posts a WRITE of one
   * word, which the checksum does not cover, and does not wait for it; the last client's WRITE
   * counts. The block is not reused while this client is in its epoch. After the record was
   * replaced, no client reads the word.
   */
  touch(request: Request): Operation<void> {
    if (request.found.isInline) return this.#usesInTable.touch(request);
    const { incoming, timesAt, foundAddress, found, uses } = request;
    return this.#note(foundAddress + (timesAt - found.at), usesAt(incoming, timesAt), uses);
  }

  /**
   * Notes that the record that the request has written replaced the found one, and inherits its
   * number of uses. The written record must have times.
   */
  inheritUses(request: Request): Operation<void> {
    if (request.isInTable) return this.#usesInTable.inheritUses(request);
    const { keyBytes } = request;
    const { written, chain } = request.record;
    const link = chain === undefined ? 0 : LINK_BYTES;
    return this.noteUse(request, written + valueOffset(keyBytes) + link);
  }

  get #usesInTable(): UsesInTable {
    return this.inTable ?? (invariant(false, 'an index without records of its own') as never);
  }

  /** Notes one more use than the found record had in the access word at `address`. */
  noteUse({ timesIn, accessAt, uses }: Request, address: Address): Operation<void> {
    return this.#note(address, usesAt(timesIn, accessAt), uses);
  }

  *#note(word: Address, before: number, uses: number): Operation<void> {
    const ticks = this.#accessClock.ticks();
    let more = before;
    for (let use = 0; use < uses; use++) more = usedOnceMore(more, this.#clock.chance);
    yield* this.#unwaited.word(word, lowOfAccess(ticks), highOfAccess(ticks, more));
  }

  /** Writes the access word of a record that is used now. */
  writeAccess(memory: Scratch, at: number): void {
    const ticks = this.#accessClock.ticks();
    setWord(memory, at, lowOfAccess(ticks), highOfAccess(ticks, 1));
  }

  /** Encodes key and value as the request's outgoing record; no verb is posted yet. */
  encode(request: Request, key: Bytes, value: Bytes, version: number, expiry?: Expiry): void {
    request.setKey(key, this.seed, bytesBound(value));
    request.record.expiry = expiry;
    this.encodeValue(request, value, version);
  }

  /** `codec` overrides the codec that the value's type implies. */
  encodeValue(request: Request, value: Bytes, version: number, codec?: number): void {
    request.setValue(value, request.record.expiry === undefined ? 0 : this.#accessClock.ticks());
    if (codec !== undefined) request.record.codec = codec;
    const { record, keyBytes } = request;
    record.chain = undefined;
    if (fitsOneBlock(keyBytes, record.valueBytes)) {
      record.headUnits = unitsOf(valueOffset(keyBytes) + pad8(record.valueBytes));
      request.seal(version);
    } else {
      const plan = planChain(keyBytes, record.valueBytes);
      record.headUnits = plan.headUnits;
      record.chain = { plan, blocks: [] };
      request.seal(version, FLAG_CHAINED);
    }
  }

  /** Gives the outgoing record a block claimed ahead; false when `allocate` must do it. */
  take(request: Request): boolean {
    const { record } = request;
    if (record.chain) return false;
    invariant(record.block === NULL_ADDRESS, 'a record that has a block takes another one');
    const units = classOfHead(record.headUnits);
    record.block = this.#allocator.sizeClass(this.catalog, units).take();
    return record.block !== NULL_ADDRESS;
  }

  /**
   * How many more blocks of the request's size this client should evict; 0 if they are not scarce.
   * In a full pool it should hold twice what it claims at once, free or retired: one half passes
   * its grace period while the client uses the other.
   */
  shortage({ record }: Request): number {
    const sizeClass = this.#allocator.sizeClass(this.catalog, classOfHead(record.headUnits));
    if (!sizeClass.isScarce) return 0;
    const lacking = 2 * sizeClass.claimsMax(true) - sizeClass.cache.length;
    if (lacking <= 0) return 0;
    return Math.max(0, lacking - this.#reclamation.waitingOf(this.catalog, sizeClass.units));
  }

  /** Gives the outgoing record blocks, claiming more if this client has none left. */
  *allocate(request: Request): Operation<void> {
    const { record } = request;
    invariant(record.block === NULL_ADDRESS, 'a record that has blocks is given others');
    const units = classOfHead(record.headUnits);
    const sizeClass = this.#allocator.sizeClass(this.catalog, units);
    record.block = sizeClass.take();
    while (record.block === NULL_ADDRESS) {
      yield* this.#allocator.refill(sizeClass);
      record.block = sizeClass.take();
    }
    if (record.chain) yield* this.#allocatePieces(record.chain);
  }

  *#allocatePieces(chain: OutgoingChain): Operation<void> {
    try {
      for (const piece of chain.plan.pieces) {
        const address = yield* this.#allocator.allocate(this.catalog, piece.units);
        chain.blocks.push(address);
      }
    } catch (error) {
      this.#giveBackPieces(chain);
      throw error;
    }
  }

  #giveBackPieces(chain: OutgoingChain): void {
    chain.blocks.forEach((address, i) => {
      const { units } = chain.plan.pieces[i];
      this.#allocator.sizeClass(this.catalog, units).cache.push(address);
    });
    chain.blocks.length = 0;
  }

  /** Adds the WRITEs of the outgoing record to the batch, unless they have been posted before. */
  post(request: Request, batch: Batch): void {
    const { record } = request;
    if (record.isPosted) return;
    invariant(record.block > NULL_ADDRESS, 'a record is written that has no block');
    record.isPosted = true;
    if (record.chain) {
      postChain(request, record.chain, batch);
    } else {
      const bytes = valueOffset(request.keyBytes) + pad8(record.valueBytes);
      batch.write(record.block, bytes, request.outgoing, 0);
    }
  }

  /**
   * As `post`, for an insertion. A failed attempt to update has given the record a version that
   * another client may have used for the key, too; an inserted record has its own first version.
   */
  postFirst(request: Request, batch: Batch): void {
    const renumbered = request.record.version !== request.record.firstVersion;
    if (renumbered) request.reseal(request.record.firstVersion);
    if (renumbered && request.record.isPosted) {
      batch.write(request.record.block, HEADER_BYTES, request.outgoing, 0);
    }
    this.post(request, batch);
  }

  /** Drops an outgoing record that was not linked: its blocks are reused or retired. */
  discard(request: Request): void {
    const { record } = request;
    if (record.block === NULL_ADDRESS) return;
    if (record.isExposed) {
      this.retireOutgoing(request);
      return;
    }
    const units = classOfHead(record.headUnits);
    this.#allocator.sizeClass(this.catalog, units).cache.push(record.block);
    if (record.chain) this.#giveBackPieces(record.chain);
    record.forgetBlock();
  }

  /**
   * Retires the blocks of an outgoing record that others may have seen. It can then get new blocks.
   */
  retireOutgoing(request: Request): void {
    const { block, headUnits, chain } = request.record;
    invariant(block > NULL_ADDRESS, 'a record is retired that has no block');
    this.#reclamation.retire(block, classOfHead(headUnits), this.catalog);
    chain?.blocks.forEach((address, i) => {
      this.#reclamation.retire(address, chain.plan.pieces[i].units, this.catalog);
    });
    request.record.forgetBlock();
  }

  /** Retires the blocks of the found, chained record, which was unlinked. */
  *retireChain(request: Request, address: Address): Operation<void> {
    for (const { address: at, units } of yield* this.foundBlocks(request, address)) {
      this.#reclamation.retire(at, units, this.catalog);
    }
  }

  /**
   * Retires the found record, which was unlinked and is not chained. `slotUnits`, from its slot, is
   * its length or that of its block.
   */
  retireFound({ keyBytes, found }: UnlinkedRecord, address: Address, slotUnits: number): void {
    const units = unitsOf(valueOffset(keyBytes) + pad8(found.valueBytes));
    // The length decides which state byte is cleared. A damaged length must not free another block.
    const block = classOfHead(units);
    if (units !== slotUnits && block !== slotUnits) throw damaged();
    this.#reclamation.retire(address, block, this.catalog);
  }

  /** All blocks of the found record, with their size classes. */
  *foundBlocks(request: Request, address: Address): Operation<Block[]> {
    const { keyBytes } = request;
    const { valueBytes: foundValueBytes } = request.found;
    if (!request.found.isChained) {
      const units = unitsOf(valueOffset(keyBytes) + pad8(foundValueBytes));
      return [{ address, units: classOfHead(units) }];
    }
    const plan = planChain(keyBytes, foundValueBytes);
    const link = request.found.at + valueOffset(keyBytes);
    const pieces = yield* this.#chainBlocks(plan, readInteger(request.incoming, link));
    return [{ address, units: classOfHead(plan.headUnits) }, ...pieces];
  }

  *#chainBlocks(plan: ChainPlan, first: Address): Operation<Block[]> {
    const header = new Scratch(CONTINUATION_HEADER_BYTES);
    const blocks: Block[] = [];
    let address = first;
    for (const { units } of plan.pieces) {
      blocks.push({ address, units });
      yield new Batch().read(address, 8, header, 0);
      address = readInteger(header, 0);
    }
    return blocks;
  }

  /**
   * Reads the record at `address`, whatever its key is, as the request's found one. `units` is what
   * its slot says; a key that is longer costs another READ.
   */
  *adopt(request: Request, address: Address, units: number): Operation<void> {
    const { incoming } = request;
    incoming.ensure(units * UNIT_BYTES);
    yield new Batch().read(address, units * UNIT_BYTES, incoming, 0);
    const head = headUnitsIn(incoming, 0);
    if (head > units) {
      // The record is longer than a slot can say.
      incoming.ensure(head * UNIT_BYTES);
      yield new Batch().read(address, head * UNIT_BYTES, incoming, 0);
    }
    request.adoptKey(incoming, 0, incoming.i32[KEY_BYTES_AND_KIND >> 2] & 0xffff, this.seed);
  }

  /**
   * Completes and checks the found record, which a candidate READ left in `incoming`. Under an
   * epoch its blocks are immutable, so a wrong checksum is damage and not a race.
   */
  *complete(request: Request): Operation<void> {
    if (request.found.contentBytes > VALUE_BYTES_MAX) throw damaged();
    if (request.found.isChained) yield* this.#readChain(request);
    this.check(request);
  }

  check(request: Request): void {
    if (request.found.contentBytes > VALUE_BYTES_MAX || !request.verifies()) throw damaged();
  }

  *#readChain(request: Request): Operation<void> {
    const { keyBytes, incoming } = request;
    const { valueBytes: foundValueBytes, at: foundAt } = request.found;
    const plan = planChain(keyBytes, foundValueBytes);
    const link = foundAt + valueOffset(keyBytes);
    const value = new Scratch(pad8(foundValueBytes));
    const inlineAt = link + LINK_BYTES;
    value.u8.set(incoming.u8.subarray(inlineAt, inlineAt + pad8(plan.inlineBytes)), 0);
    const header = new Scratch(CONTINUATION_HEADER_BYTES);
    let address = readInteger(incoming, link);
    let at = plan.inlineBytes;
    for (const { bytes } of plan.pieces) {
      yield new Batch()
        .read(address, 8, header, 0)
        .read(address + CONTINUATION_HEADER_BYTES, pad8(bytes), value, at);
      address = readInteger(header, 0);
      at += bytes;
    }
    request.found.memory = value;
    request.found.valueAt = 0;
  }
}

function damaged(): StepwellError {
  return new StepwellError('SW_RECORD_CORRUPT', 'a record does not match its checksum');
}

/** Lines of the first block of the record at `at`; bounded, in case the record is damaged. */
export function headUnitsIn({ i32 }: Scratch, at: number): number {
  const kind = i32[(at + KEY_BYTES_AND_KIND) >> 2];
  const keyBytes = kind & 0xffff;
  const chained = ((kind >>> 24) & FLAG_CHAINED) !== 0;
  const longest = Math.max(SLOT_UNITS_MAX, unitsOf(headBytes(keyBytes)));
  return Math.min(longest, headUnitsOf(keyBytes, i32[(at + VALUE_BYTES) >> 2] >>> 0, chained));
}

/** The size class of a head block of `units`. */
export function classOfHead(units: number): number {
  return units <= SLOT_UNITS_MAX ? SLOT_SIZE_CLASS[units] : sizeClassOf(units);
}

/**
 * Cuts the contiguous outgoing image (header, key, value) into head and pieces. Builds them in a
 * second scratch, because each piece needs a header.
 */
function postChain(request: Request, { plan, blocks }: OutgoingChain, batch: Batch): void {
  const { outgoing, keyBytes, record } = request;
  invariant(blocks.length === plan.pieces.length, 'a record is written without all its blocks');
  const valueAt = valueOffset(keyBytes);
  const images = new Scratch(
    plan.headUnits * UNIT_BYTES +
      plan.pieces.reduce((sum, { units }) => sum + units * UNIT_BYTES, 0),
  );
  const head = valueAt + LINK_BYTES + plan.inlineBytes;
  images.u8.set(outgoing.u8.subarray(0, valueAt), 0);
  writeInteger(images, valueAt, blocks[0] ?? 0);
  images.i32[(valueAt + 8) >> 2] = plan.pieces[0]?.units ?? 0;
  images.i32[(valueAt + 12) >> 2] = plan.inlineBytes;
  images.u8.set(outgoing.u8.subarray(valueAt, valueAt + plan.inlineBytes), valueAt + LINK_BYTES);
  let from = valueAt + plan.inlineBytes;
  let at = plan.headUnits * UNIT_BYTES;
  plan.pieces.forEach(({ bytes, units }, i) => {
    writeInteger(images, at, blocks[i + 1] ?? 0);
    images.i32[(at + 8) >> 2] = plan.pieces[i + 1]?.units ?? 0;
    images.i32[(at + 12) >> 2] = bytes;
    writeInteger(images, at + 16, record.block);
    images.u8.set(outgoing.u8.subarray(from, from + bytes), at + CONTINUATION_HEADER_BYTES);
    batch.write(blocks[i], CONTINUATION_HEADER_BYTES + pad8(bytes), images, at);
    from += bytes;
    at += units * UNIT_BYTES;
  });
  batch.write(record.block, pad8(head), images, 0);
}
