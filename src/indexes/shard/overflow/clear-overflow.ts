import { Batch, CAS_BYTES, type Operation, Scratch, setWord } from '../../../verbs/index.ts';
import { lengthOf } from '../../substrates/claims/slot-format.ts';
import { KeyHashes } from '../../substrates/key-hashes.ts';
import { eachBucket } from '../each-bucket.ts';
import type { Segments } from '../table/segments.ts';
import {
  CLEARING,
  FROZEN,
  isEmpty,
  OVERFLOW,
  OVERFLOW_MASK,
  pointerOf,
  STAMP_MASK,
  stampOf,
} from '../table/slot.ts';
import type { ShardTable } from '../table/table.ts';
import { closeEmptyChains } from './close-empty-chains.ts';

const WORDS_A_DOORBELL = 256;
const RECORDS_A_DOORBELL = 256;
const ROUNDS_MAX = 1000;

export interface Cleared {
  /** Buckets of level 1 whose misses need not look below any more. */
  cleared: number;
  /** Chain nodes given back. */
  nodes: number;
}

/** A bucket of level 1 that this client has marked, and whether a key of it was found below. */
interface Marked {
  version: number;
  kept: boolean;
}

/**
 * Takes overflow bits back where nothing of the bucket is below level 1 any more, and gives empty
 * chains back. Which keys are below only a look at levels 2 and 3 tells, so all buckets are dealt
 * with at once:
 *
 *   1  OVERFLOW -> CLEARING in the first word of every bucket that has overflowed
 *   2  read levels 2 and 3, and of what stands there, pending or not, the keys
 *   3  CLEARING -> OVERFLOW where a key of the bucket was found, else CLEARING -> nothing
 *
 * A claim below that 2 has missed was made after 1, so its owner reads CLEARING, or nothing, behind
 * its claim: it sets both bits, which no client changes any more before the bucket is moved, or
 * withdraws. Only the client that has set CLEARING takes it back, so the word of step 3 is that of
 * step 1 or one with both bits. When that client dies in between, the bit stays until the bucket is
 * moved, and counts as overflow.
 */
export function* clearOverflow(table: ShardTable): Operation<Cleared> {
  yield* table.load();
  const { segments } = table;
  // All buckets of a table that is being migrated are new ones soon: then is time enough.
  if (segments.former !== undefined) return { cleared: 0, nodes: 0 };
  const { version } = segments;
  const marked = yield* markAll(table, segments);
  yield* findKeysBelow(table, marked);
  yield* table.load();
  // What was moved to a new segment meanwhile, or migrated, may not have been met.
  if (table.segments !== segments || segments.version > version)
    for (const one of marked.values()) one.kept = true;
  const cleared = yield* unmarkAll(segments, marked);
  const nodes = yield* closeEmptyChains(table);
  table.reclaimed.cleared += cleared;
  table.reclaimed.nodes += nodes;
  return { cleared, nodes };
}

/** Step 1. */
function* markAll(table: ShardTable, segments: Segments): Operation<Map<number, Marked>> {
  const marked = new Map<number, Marked>();
  const buckets = Array.from({ length: table.geometry.bucketsAt(segments.version) }, (_, b) => b);
  yield* changeFirstWords(
    segments,
    buckets,
    (high, bucket) => {
      if ((high & OVERFLOW_MASK) !== OVERFLOW || (high & FROZEN) !== 0) return undefined;
      marked.set(bucket, { version: stampOf(high) - 1, kept: false });
      return (high & ~OVERFLOW) | CLEARING;
    },
    (bucket) => void marked.delete(bucket),
  );
  return marked;
}

/** Step 2. */
function* findKeysBelow(table: ShardTable, marked: Map<number, Marked>): Operation<void> {
  const { geometry } = table;
  const records: { address: number; units: number }[] = [];
  yield* eachBucket(
    table,
    ({ words: { i32 }, at, entries }) => {
      for (let word = at >> 2; word < (at >> 2) + 2 * entries; word += 2) {
        const [low, high] = [i32[word], i32[word + 1]];
        if (isEmpty(low, high)) continue;
        records.push({ address: pointerOf(low, high), units: lengthOf(high) });
      }
    },
    1,
  );
  const versions = new Set([...marked.values()].map(({ version }) => version));
  const hashes = new KeyHashes();
  for (let first = 0; first < records.length; first += RECORDS_A_DOORBELL) {
    const some = records.slice(first, first + RECORDS_A_DOORBELL);
    hashes.clear();
    hashes.ensure(some.length);
    for (const { address, units } of some) hashes.add(address, units);
    yield* hashes.read(geometry.shape.seed, (_, { h1 }) => {
      for (const version of versions) {
        const one = marked.get(geometry.bucketOf(h1, version));
        if (one?.version === version) one.kept = true;
      }
    });
  }
}

/** Step 3; returns how many buckets have no overflow bit any more. */
function* unmarkAll(segments: Segments, marked: Map<number, Marked>): Operation<number> {
  let left = [...marked.keys()];
  let cleared = 0;
  // Again where an entry was put into the word meanwhile.
  for (let round = 0; left.length > 0 && round < ROUNDS_MAX; round++) {
    const failed: number[] = [];
    const tried = new Set<number>();
    yield* changeFirstWords(
      segments,
      left,
      (high, bucket) => {
        const { version, kept } = marked.get(bucket) as Marked;
        const isOwn = (high & OVERFLOW_MASK) === CLEARING && stampOf(high) - 1 === version;
        if (!isOwn || (high & FROZEN) !== 0) return undefined;
        tried.add(bucket);
        return (high & ~CLEARING) | (kept ? OVERFLOW : 0);
      },
      (bucket) => void failed.push(bucket),
    );
    for (const bucket of failed) tried.delete(bucket);
    for (const bucket of tried) if (!marked.get(bucket)?.kept) cleared++;
    left = failed;
  }
  return cleared;
}

/**
 * Changes the first words of buckets of level 1: `next` says what a word becomes, undefined when it
 * stays; `failed` hears of those that have changed meanwhile.
 */
function* changeFirstWords(
  segments: Segments,
  buckets: readonly number[],
  next: (high: number, bucket: number) => number | undefined,
  failed: (bucket: number) => void,
): Operation<void> {
  const words = new Scratch(8 * WORDS_A_DOORBELL);
  const swaps = new Scratch(CAS_BYTES * WORDS_A_DOORBELL);
  const batch = new Batch();
  for (let first = 0; first < buckets.length; first += WORDS_A_DOORBELL) {
    const some = buckets.slice(first, first + WORDS_A_DOORBELL);
    const addresses = some.map((bucket) => segments.bucketAddress(0, bucket));
    batch.clear();
    addresses.forEach((address, i) => void batch.read(address, 8, words, 8 * i));
    yield batch;
    const changed: number[] = [];
    batch.clear();
    some.forEach((bucket, i) => {
      const [low, high] = [words.i32[2 * i], words.i32[2 * i + 1]];
      const wanted = (high & STAMP_MASK) === 0 ? undefined : next(high, bucket);
      if (wanted === undefined) return;
      const at = CAS_BYTES * changed.length;
      setWord(swaps, at, low, high);
      setWord(swaps, at + 8, low, wanted);
      batch.cas(addresses[i], swaps, at);
      changed.push(bucket);
    });
    if (batch.length > 0) yield batch;
    changed.forEach((bucket, i) => {
      const at = (CAS_BYTES * i) >> 3;
      if (swaps.i64[at] !== swaps.i64[at + 2]) failed(bucket);
    });
  }
}
