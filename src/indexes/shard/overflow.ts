import { invariant } from '../../errors.ts';
import {
  type Address,
  Batch,
  CAS_BYTES,
  copyWord,
  highHalf,
  lowHalf,
  type Operation,
  Scratch,
  setWord,
  swapped,
  UNIT_BYTES,
} from '../../verbs/index.ts';
import { lengthOf, pointerHigh, pointerLow } from '../substrates/claims/slot-format.ts';
import { SWAP_AT } from '../substrates/claims/slot-request.ts';

import { KeyHashes } from '../substrates/key-hashes.ts';
import { eachBucket, eachEntry, eachNode, type VisitedBucket } from './each-bucket.ts';
import { lastLinkAt } from './operations/buckets.ts';
import { LEVEL3_LINK, LEVELS, NODE_BYTES, NODE_LINK, PLACES } from './table/geometry.ts';
import type { ShardRequest } from './table/request.ts';
import type { Segments } from './table/segments.ts';
import {
  CLEARING,
  FROZEN,
  freshHigh,
  isEmpty,
  OVERFLOW,
  OVERFLOW_MASK,
  pointerOf,
  STAMP_MASK,
  stampOf,
} from './table/slot.ts';
import type { ShardTable } from './table/table.ts';

export const NODE_UNITS = NODE_BYTES / UNIT_BYTES;
/** Chain nodes are not moved: when a bucket of level 3 is split, both halves share its chain. */
const NODE_VERSION = 0;

/** Adds an empty node to the chain of the key's level 3 bucket, unless another client does. */
export function* extendChain(table: ShardTable, request: ShardRequest): Operation<void> {
  const { batch, words } = request;
  const at = lastLinkAt(request);
  const isClosed = request.nodes.length > 0 && (highHalf(words, at) & FROZEN) !== 0;
  if (isClosed) return yield* unlinkOwn(table, request);
  const { allocator, catalog } = table;
  const node = yield* allocator.allocate(catalog, NODE_UNITS);
  const isEnd = isEmpty(lowHalf(words, at), highHalf(words, at));
  invariant(isEnd, 'a chain is extended before its end, which would lose the nodes behind');
  const image = new Scratch(NODE_BYTES);
  for (let slot = 0; slot < NODE_BYTES; slot += 8) {
    setWord(image, slot, 0, freshHigh(NODE_VERSION));
  }
  copyWord(words, at, SWAP_AT);
  const high = (highHalf(words, at) & STAMP_MASK) | pointerHigh(node);
  setWord(words, SWAP_AT + 8, pointerLow(node), high);
  const link: Address = table.slotAddress(request, at);
  yield batch.clear().write(node, NODE_BYTES, image, 0).cas(link, words, SWAP_AT);
  if (!swapped(words, SWAP_AT)) allocator.sizeClass(catalog, NODE_UNITS).cache.push(node);
}

/** Unlinks a closed chain from the key's bucket, so that a new one can begin there. */
function* unlinkOwn(table: ShardTable, request: ShardRequest): Operation<void> {
  const { batch, words } = request;
  const at = request.at[PLACES - 1] + LEVEL3_LINK;
  copyWord(words, at, SWAP_AT);
  setWord(words, SWAP_AT + 8, 0, highHalf(words, at) & STAMP_MASK);
  yield batch.clear().cas(table.slotAddress(request, at), words, SWAP_AT);
}

const WORDS_PER_DOORBELL = 256;
const RECORDS_PER_DOORBELL = 256;
const ROUNDS_MAX = 1000;

export interface Cleared {
  /** Buckets of level 1 whose overflow bit was removed. */
  cleared: number;
  /** Chain nodes that were freed. */
  nodes: number;
}

/** A bucket of level 1 that this client has marked, and whether a key of it was found below. */
interface Marked {
  version: number;
  kept: boolean;
}

/**
 * Removes the overflow bits of buckets that no longer have keys below level 1, and frees empty
 * chains. Only reading levels 2 and 3 tells which keys are below, so this handles all buckets at
 * once:
 *
 *   1  OVERFLOW -> CLEARING in the first word of every bucket that has overflowed
 *   2  read levels 2 and 3, and the keys of all entries there, pending or not
 *   3  CLEARING -> OVERFLOW where a key of the bucket was found, else CLEARING -> 0
 *
 * If step 2 missed a claim below, the claim was made after step 1, and its owner then reads
 * CLEARING or neither bit. The owner withdraws, or sets both bits, which stay until the bucket is
 * moved. Only the client that set CLEARING removes it. So step 3 finds the bits of step 1, or both.
 * If that client dies in between, CLEARING stays until the bucket is moved, and counts as overflow.
 */
export function* clearOverflow(table: ShardTable): Operation<Cleared> {
  yield* table.load();
  const { segments } = table;
  // The buckets of a table that is being migrated are soon replaced; those can be cleared then.
  if (segments.former !== undefined) return { cleared: 0, nodes: 0 };
  const { version } = segments;
  const marked = yield* markAll(table, segments);
  yield* findKeysBelow(table, marked);
  yield* table.load();
  // Step 2 may have missed entries that were moved to a new segment or migrated meanwhile.
  const mayMiss = table.segments !== segments || segments.version > version;
  if (mayMiss) for (const one of marked.values()) one.kept = true;
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
  const { failed } = yield* changeFirstWords(segments, buckets, (high, bucket) => {
    if ((high & OVERFLOW_MASK) !== OVERFLOW || (high & FROZEN) !== 0) return undefined;
    marked.set(bucket, { version: stampOf(high) - 1, kept: false });
    return (high & ~OVERFLOW) | CLEARING;
  });
  for (const bucket of failed) marked.delete(bucket);
  return marked;
}

/** Step 2. */
function* findKeysBelow(table: ShardTable, marked: Map<number, Marked>): Operation<void> {
  const { geometry } = table;
  const records: { address: number; units: number }[] = [];
  const note = (low: number, high: number) => {
    records.push({ address: pointerOf(low, high), units: lengthOf(high) });
  };
  yield* eachBucket(table, ({ words, at, entries }) => eachEntry(words, at, entries, note), 1);
  const versions = new Set([...marked.values()].map(({ version }) => version));
  const hashes = new KeyHashes();
  for (let first = 0; first < records.length; first += RECORDS_PER_DOORBELL) {
    const some = records.slice(first, first + RECORDS_PER_DOORBELL);
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

/** Step 3; returns how many buckets have lost their overflow bit. */
function* unmarkAll(segments: Segments, marked: Map<number, Marked>): Operation<number> {
  let left = [...marked.keys()];
  let cleared = 0;
  // Tries again if an entry was put into the word meanwhile.
  for (let round = 0; left.length > 0 && round < ROUNDS_MAX; round++) {
    const { changed, failed } = yield* changeFirstWords(segments, left, (high, bucket) => {
      const { version, kept } = marked.get(bucket) as Marked;
      const isOwn = (high & OVERFLOW_MASK) === CLEARING && stampOf(high) - 1 === version;
      if (!isOwn || (high & FROZEN) !== 0) return undefined;
      return (high & ~CLEARING) | (kept ? OVERFLOW : 0);
    });
    for (const bucket of changed) if (!marked.get(bucket)?.kept) cleared++;
    left = failed;
  }
  return cleared;
}

/**
 * Changes the first words of buckets of level 1. `next` returns a word's new high half, or
 * undefined to leave it. Returns the buckets whose words it changed, and those that another client
 * changed meanwhile.
 */
function* changeFirstWords(
  segments: Segments,
  buckets: readonly number[],
  next: (high: number, bucket: number) => number | undefined,
): Operation<{ changed: number[]; failed: number[] }> {
  const [changed, failed]: number[][] = [[], []];
  const words = new Scratch(8 * WORDS_PER_DOORBELL);
  const swaps = new Scratch(CAS_BYTES * WORDS_PER_DOORBELL);
  const batch = new Batch();
  for (let first = 0; first < buckets.length; first += WORDS_PER_DOORBELL) {
    const some = buckets.slice(first, first + WORDS_PER_DOORBELL);
    const addresses = some.map((bucket) => segments.bucketAddress(0, bucket));
    batch.clear();
    addresses.forEach((address, i) => void batch.read(address, 8, words, 8 * i));
    yield batch;
    const posted: number[] = [];
    batch.clear();
    some.forEach((bucket, i) => {
      const [low, high] = [words.i32[2 * i], words.i32[2 * i + 1]];
      const wanted = (high & STAMP_MASK) === 0 ? undefined : next(high, bucket);
      if (wanted === undefined) return;
      const at = CAS_BYTES * posted.length;
      setWord(swaps, at, low, high);
      setWord(swaps, at + 8, low, wanted);
      batch.cas(addresses[i], swaps, at);
      posted.push(bucket);
    });
    if (batch.length > 0) yield batch;
    for (const [i, bucket] of posted.entries()) {
      (swapped(swaps, CAS_BYTES * i) ? changed : failed).push(bucket);
    }
  }
  return { changed, failed };
}

const PASSES_MAX = 100;

/** A link of a bucket of level 3, as it was read. */
interface Link {
  address: Address;
  low: number;
  high: number;
}

/**
 * Frees the empty chains of level 3. All buckets split from the one in which a chain began share
 * it, so
 *
 *   1  every entry is frozen while empty, and last the link of the last node: from then on nothing
 *      can be added to the chain. The client that freezes that link frees the nodes.
 *   2  the link is removed from every bucket. A pass over all buckets, segment by segment, that
 *      finds none ends this: moves copy a link only to a bucket of a later segment, and no client
 *      adds one to a bucket that has none. Any client may help.
 *   3  the nodes are retired, because a client that has read a link may still read them
 *
 * A table that begins to be migrated meanwhile is left alone, as if this client had died.
 *
 * If the client dies in between, the next client that meets the chain unlinks it, and a sweep finds
 * the nodes. If step 1 finds that the chain is in use after all, the entries frozen so far stay
 * frozen.
 */
export function* closeEmptyChains(table: ShardTable): Operation<number> {
  const links = yield* allLinks(table);
  const heads = new Set(links.map(({ low, high }) => pointerOf(low, high)));
  const closed = new Set<Address>();
  const own: Address[] = [];
  for (const head of heads) {
    const chain = yield* close(head);
    if (chain === undefined) continue;
    closed.add(head);
    if (chain.isOwn) own.push(...chain.nodes);
  }
  if (closed.size === 0 || !(yield* unlink(table, closed))) return 0;
  for (const node of own) table.pool.reclamation.retire(node, NODE_UNITS, table.catalog);
  return own.length;
}

function* allLinks(table: ShardTable): Operation<Link[]> {
  const links: Link[] = [];
  const note = ({ words, at, level, address }: VisitedBucket) => {
    if (level !== LEVELS - 1) return;
    eachEntry(words, at + LEVEL3_LINK, 1, (low, high) => {
      links.push({ address: address + LEVEL3_LINK, low, high });
    });
  };
  yield* eachBucket(table, note, LEVELS - 1);
  return links;
}

interface Closed {
  nodes: Address[];
  /** Whether it was this client that closed it. */
  isOwn: boolean;
}

interface Node {
  address: Address;
  words: Scratch;
}

/**
 * Step 1. Undefined if the chain is in use. Reads the whole chain before it freezes an entry: a
 * frozen entry of a chain in use is lost to insertions, which then need memory for another node.
 */
function* close(head: Address): Operation<Closed | undefined> {
  const chain = yield* readEmpty(head);
  if (chain === undefined) return undefined;
  const swap = new Scratch(CAS_BYTES * (NODE_LINK / 8));
  for (const { address, words } of chain) {
    if (!(yield* freezeEntries(address, words, swap))) return undefined;
  }
  const nodes = chain.map(({ address }) => address);
  const last = chain[chain.length - 1];
  const high = last.words.i32[(NODE_LINK >> 2) + 1];
  if ((high & FROZEN) !== 0) return { nodes, isOwn: false };
  setWord(swap, 0, 0, high);
  setWord(swap, 8, 0, high | FROZEN);
  yield new Batch().cas(last.address + NODE_LINK, swap, 0);
  if (swapped(swap, 0)) return { nodes, isOwn: true };
  // Another client has closed or extended the chain.
  return (highHalf(swap, 16) & FROZEN) !== 0 ? { nodes, isOwn: false } : undefined;
}

/** The nodes of a chain; undefined when an entry is in use. */
function* readEmpty(head: Address): Operation<Node[] | undefined> {
  const chain: Node[] = [];
  let used = 0;
  const note = (words: Scratch, address: Address) => {
    chain.push({ address, words });
    eachEntry(words, 0, NODE_LINK >> 3, () => used++);
  };
  yield* eachNode(head, note, () => used === 0);
  return used === 0 ? chain : undefined;
}

function* freezeEntries(node: Address, { i32 }: Scratch, swap: Scratch): Operation<boolean> {
  const batch = new Batch();
  for (let at = 0; at < NODE_LINK; at += 8) {
    const [low, high] = [i32[at >> 2], i32[(at >> 2) + 1]];
    if ((high & FROZEN) !== 0) continue;
    const to = CAS_BYTES * batch.length;
    setWord(swap, to, low, high);
    setWord(swap, to + 8, low, high | FROZEN);
    batch.cas(node + at, swap, to);
  }
  const { length } = batch;
  if (length === 0) return true;
  yield batch;
  for (let i = 0; i < length; i++) {
    const at = CAS_BYTES * i;
    const [low, high] = [lowHalf(swap, at + 16), highHalf(swap, at + 16)];
    const wasFrozen = isEmpty(low, high) && (high & FROZEN) !== 0;
    if (!swapped(swap, at) && !wasFrozen) return false;
  }
  return true;
}

/** Step 2. False if links may be left. */
function* unlink(table: ShardTable, heads: ReadonlySet<Address>): Operation<boolean> {
  for (let pass = 0; pass < PASSES_MAX; pass++) {
    yield* table.load();
    const { segments } = table;
    // In the old place, the links of buckets that were fetched are frozen.
    if (segments.former !== undefined) return false;
    const { version } = segments;
    const all = yield* allLinks(table);
    const links = all.filter(({ low, high }) => heads.has(pointerOf(low, high)));
    if (links.length === 0) {
      yield* table.load();
      if (table.segments === segments && segments.version === version) return true;
    }
    const swap = new Scratch(CAS_BYTES);
    for (const { address, low, high } of links) {
      setWord(swap, 0, low, high);
      setWord(swap, 8, 0, high & STAMP_MASK);
      yield new Batch().cas(address, swap, 0);
    }
  }
  return false;
}
