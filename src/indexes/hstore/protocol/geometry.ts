import { invariant } from '../../../errors.ts';
import type { KeyHash } from '../../../records/hash.ts';
import type { Address } from '../../../verbs/index.ts';
import type { HStoreShape } from './parameters.ts';
import { BUCKET_BYTES, markOf } from './slot.ts';

const LINE = 64;

/** Offsets of a pair's words. Words with different writers are in different lines. */
export const PAIR = {
  /** The client that is the hash server, and its beat; see Lease. */
  hashLease: 0,
  /** Highest sequence whose table updates may have begun, and up to which all are done. */
  begun: 64,
  committed: 72,
  /** Which generation of the hash table is there; see TableState. */
  table: 80,
  /** The turn that was decided last, and the one that was done last; see turn.ts. */
  turn: 88,
  done: 96,
  /** The client that is the skiplist server, its beat, and the sequence of its skiplist. */
  skiplistLease: 128,
  applied: 192,
} as const;
const PAIR_HEADER = 256;
/** Bytes of the words above. */
export const PAIR_STATE_BYTES = 200;

export const LOG_ENTRY_BYTES = 32;
export const BODY_BYTES = 64;
export const REPLY_BYTES = 32;

/** How many places for records of turns each client has: see hash-server.ts. */
const OWN_RECORDS = 16;
/** Bytes for the record of a turn with one request. */
const OWN_RECORD_BYTES = 2 * LINE;

/** The most requests that a turn answers. */
const TURN_MAX = 64;

/** A mailbox in the pool: parallel arrays, one row for each request that can wait. */
export class MailboxGeometry {
  readonly rows: number;
  readonly base: Address;
  readonly bytes: number;
  /** Bytes of an array of a word for each row. */
  readonly #words: number;

  constructor(base: Address, rows: number) {
    this.base = base;
    this.rows = rows;
    this.#words = wholeLines(8 * rows);
    this.bytes = wholeLines(this.reply(rows) - base);
  }

  /** One past the highest row that was ever taken. */
  get rowsUsed(): Address {
    return this.base;
  }

  /** How many rows are in use by the word `rowsUsed`. Raises SW_POOL_CORRUPT. */
  inTable(used: number): number {
    invariant(used <= this.rows, `a mailbox of ${this.rows} rows says that ${used} are in use`);
    return used;
  }

  /** Number of a row's last request: written after its body. */
  request(row: number): Address {
    return this.base + LINE + 8 * row;
  }

  /** Number of the request that a row's reply answers: written after the reply. */
  answered(row: number): Address {
    return this.request(row) + this.#words;
  }

  owner(row: number): Address {
    return this.answered(row) + this.#words;
  }

  body(row: number): Address {
    return this.owner(0) + this.#words + BODY_BYTES * row;
  }

  reply(row: number): Address {
    return this.body(this.rows) + REPLY_BYTES * row;
  }
}

function wholeLines(bytes: number): number {
  return Math.ceil(bytes / LINE) * LINE;
}

/** A generation counts tables in its lower bits, and in units of this how often they have grown. */
const GROWTH = 2 ** 40;

export function growthOf(generation: number): number {
  return Math.floor(generation / GROWTH);
}

/** The next generation: of a table of twice the size, or of the same size. */
export function generationAfter(generation: number, grows: boolean): number {
  return generation + 1 + (grows ? GROWTH : 0);
}

/** The mark of the buckets of a table of this generation. */
export function markOfTable(generation: number): number {
  return markOf(growthOf(generation));
}

/** Buckets of a pair's table of this generation. Raises SW_POOL_CORRUPT for too many. */
export function bucketsOf({ buckets, bucketsMax }: HStoreShape, generation: number): number {
  const grown = buckets * 2 ** growthOf(generation);
  invariant(grown <= bucketsMax, 'a hash table has grown beyond its bucketsMax');
  return grown;
}

/**
 * The bucket of a hash, by its highest bits. When the table doubles, two adjacent buckets share the
 * keys of one.
 */
export function bucketIn(h1: number, buckets: number): number {
  return buckets === 1 ? 0 : h1 >>> Math.clz32(buckets - 1);
}

/** Buckets of a segment of the table. A table may be larger than a region. */
export const SEGMENT_BUCKETS = 16_384;

/**
 * The layout of one pair: header, two mailboxes, log, the addresses of the segments that are its
 * hash table, and places for records of turns.
 */
export class PairGeometry {
  readonly number: number;
  readonly base: Address;
  readonly hashMailbox: MailboxGeometry;
  readonly skiplistMailbox: MailboxGeometry;
  /** Addresses of the table's segments: known when the index is open. */
  readonly segments: Address[] = [];
  /** The generation of the segments' table, its number of buckets, and each bucket's mark. */
  generation = 0;
  buckets = 0;
  mark = 0;
  readonly segmentTable: Address;
  readonly #log: Address;
  readonly #ownRecords: Address;
  /** End of the pair's memory, without its table. */
  readonly end: Address;
  readonly shape: HStoreShape;

  /** `clients`: the most that the pool can have. */
  constructor(shape: HStoreShape, base: Address, number: number, clients: number) {
    this.shape = shape;
    this.number = number;
    this.base = base;
    this.hashMailbox = new MailboxGeometry(this.base + PAIR_HEADER, shape.rows);
    const behind = this.hashMailbox.base + this.hashMailbox.bytes;
    this.skiplistMailbox = new MailboxGeometry(behind, shape.rows);
    this.#log = behind + this.skiplistMailbox.bytes;
    this.segmentTable = this.#log + LOG_ENTRY_BYTES * shape.log;
    this.#ownRecords = this.segmentTable + wholeLines(8 * segmentCount(shape.bucketsMax));
    this.end = this.#ownRecords + clients * OWN_RECORDS * OWN_RECORD_BYTES;
  }

  /** Call when `segments` are those of the table of this generation. */
  use(generation: number): void {
    this.generation = generation;
    this.buckets = bucketsOf(this.shape, generation);
    this.mark = markOfTable(generation);
  }

  /** The places for records of turns that a client has. */
  ownRecords(client: number): Address[] {
    invariant(client > 0, 'a client without a row has no place for the record of a turn');
    const first = this.#ownRecords + (client - 1) * OWN_RECORDS * OWN_RECORD_BYTES;
    return Array.from({ length: OWN_RECORDS }, (_, i) => first + i * OWN_RECORD_BYTES);
  }

  /** Whether the record of a turn at this address is in a client's own place instead of a block. */
  isOwnRecord(address: Address): boolean {
    return address >= this.#ownRecords && address < this.end;
  }

  /** The most requests that one turn of a server answers; the log keeps at least two turns. */
  get turnMax(): number {
    return Math.min(TURN_MAX, this.shape.log / 2);
  }

  /** Newest log entries that no turn overwrites if it is decided before they are read. */
  get entriesKept(): number {
    return this.shape.log - this.turnMax;
  }

  /** The entry of a sequence number; the log is a ring. */
  logEntry(sequence: number): Address {
    return this.#log + LOG_ENTRY_BYTES * (sequence % this.shape.log);
  }

  bucket(number: number): Address {
    const segment = this.segments[Math.floor(number / SEGMENT_BUCKETS)];
    return segment + BUCKET_BYTES * (number % SEGMENT_BUCKETS);
  }

  bucketOf({ h1 }: Pick<KeyHash, 'h1'>): Address {
    return this.bucket(bucketIn(h1, this.buckets));
  }
}

/** All pairs of an index, one behind the other. */
export function pairGeometries(shape: HStoreShape, root: Address, clients: number): PairGeometry[] {
  const pairs: PairGeometry[] = [];
  for (let number = 0; number < shape.pairs; number++) {
    pairs.push(new PairGeometry(shape, pairs.at(-1)?.end ?? root, number, clients));
  }
  return pairs;
}

export function segmentCount(buckets: number): number {
  return Math.ceil(buckets / SEGMENT_BUCKETS);
}

/** Buckets of each segment. */
export function segmentBuckets(buckets: number): number {
  return Math.min(buckets, SEGMENT_BUCKETS);
}

/** The pair of a key, by hash bits that bucket, signature and partition do not use. */
export function pairOf(shape: HStoreShape, { h3 }: KeyHash): number {
  return (h3 >>> 0) % shape.pairs;
}
