import {
  type Address,
  Batch,
  CAS_BYTES,
  NULL_ADDRESS,
  type Operation,
  Scratch,
  setWord,
  swapped,
} from '../../../verbs/index.ts';
import { CycleGuard } from '../../substrates/cycle-guard.ts';
import { eachBucket } from '../each-bucket.ts';
import { LEVEL3_LINK, LEVELS, NODE_BYTES, NODE_LINK } from '../table/geometry.ts';
import { FROZEN, isEmpty, pointerOf, STAMP_MASK } from '../table/slot.ts';
import type { ShardTable } from '../table/table.ts';
import { NODE_UNITS } from './extend-chain.ts';

const PASSES_MAX = 100;

/** A link of a bucket of level 3, as it was read. */
interface Link {
  address: Address;
  low: number;
  high: number;
}

/**
 * Gives back the chains of level 3 in which no key is any more. A chain is shared by all buckets
 * that came from the one in which it began, so
 *
 *   1  every entry is frozen as an empty one, and last the link behind the last node: from then on
 *      nothing can come into the chain, for ever. The client that freezes that link gives the nodes
 *      back.
 *   2  the link is taken from every bucket, until none is left in the table: a pass over all of
 *      them, segment by segment, that finds none, is the end, because links only go from a bucket
 *      to one of a later segment, and never into a bucket that has none. Any client may help.
 *   3  the nodes are retired: a client that has read a link may still read them
 *
 * A table that begins to be migrated meanwhile is left alone, as if this client had died.
 *
 * When a client dies in between, the next to meet the chain unlinks it, and a sweep finds the
 * nodes. Entries stay frozen when step 1 finds out that the chain is in use after all.
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
  yield* eachBucket(
    table,
    ({ words: { i32 }, at, level, address }) => {
      if (level !== LEVELS - 1) return;
      const word = (at + LEVEL3_LINK) >> 2;
      const [low, high] = [i32[word], i32[word + 1]];
      if (!isEmpty(low, high)) links.push({ address: address + LEVEL3_LINK, low, high });
    },
    LEVELS - 1,
  );
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
 * Step 1. Undefined when the chain is in use. All of it is read before an entry is frozen: what was
 * frozen of a chain in use is lost to insertions, which need memory for another node then.
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
  // Another one has closed it, or it was extended.
  return (swap.i32[5] & FROZEN) !== 0 ? { nodes, isOwn: false } : undefined;
}

/** The nodes of a chain; undefined when an entry is in use. */
function* readEmpty(head: Address): Operation<Node[] | undefined> {
  const chain: Node[] = [];
  const guard = new CycleGuard();
  for (let address = head; address !== NULL_ADDRESS; ) {
    guard.pass(address);
    const words = new Scratch(NODE_BYTES);
    yield new Batch().read(address, NODE_BYTES, words, 0);
    const { i32 } = words;
    for (let word = 0; word < NODE_LINK >> 2; word += 2) {
      if (!isEmpty(i32[word], i32[word + 1])) return undefined;
    }
    chain.push({ address, words });
    address = pointerOf(i32[NODE_LINK >> 2], i32[(NODE_LINK >> 2) + 1]);
  }
  return chain;
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
    const found = (CAS_BYTES * i + 16) >> 2;
    const wasEmpty = isEmpty(swap.i32[found], swap.i32[found + 1]);
    const isFrozen =
      swapped(swap, CAS_BYTES * i) || (wasEmpty && (swap.i32[found + 1] & FROZEN) !== 0);
    if (!isFrozen) return false;
  }
  return true;
}

/** Step 2. False when it was given up. */
function* unlink(table: ShardTable, heads: ReadonlySet<Address>): Operation<boolean> {
  for (let pass = 0; pass < PASSES_MAX; pass++) {
    yield* table.load();
    const { segments } = table;
    // Links of buckets that have been fetched stay for ever where they were.
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
