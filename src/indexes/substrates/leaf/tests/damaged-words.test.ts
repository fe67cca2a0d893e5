import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Store } from '../../../../store/api.ts';
import { checkSync, openSync } from '../../../../store/open.ts';
import { type ByHand, clientOf, requestFor } from '../../../../store/tests/support/by-hand.ts';
import { type Attempt, DamagedPool, Work } from '../../../../store/tests/support/damaged-pool.ts';
import type { Scope } from '../../../../store/tests/support/pools.ts';
import {
  type Address,
  Batch,
  type Operation,
  offsetOf,
  regionOf,
  Scratch,
} from '../../../../verbs/index.ts';
import { isLong, pivotBlockIn, pivotBytesIn } from '../../../chime/bounds.ts';
import { CHIME, type ChimeIndex } from '../../../chime/chime.ts';
import { CHILDREN_AT, LINKS_AT } from '../../../chime/nodes/internal-node.ts';
import { addressOfLink, type Link } from '../../../chime/nodes/link.ts';
import { NodeWalk } from '../../../chime/parts.ts';
import { ALWAYS } from '../../../contract.ts';
import { HOPSCOTCH, type HopscotchIndex } from '../../../hopscotch/hopscotch.ts';
import { isEmpty, itemHigh } from '../entry.ts';
import { BOUNDS_AT, HEADER_BYTES, type LeafGeometry } from '../layout.ts';

/** Of all words and values, each 37th; STEPWELL_DAMAGE_STEP=1 asks for all of them. */
const STEP = Number(process.env.STEPWELL_DAMAGE_STEP ?? 37);
const KEYS = 72;
/** Batches that a call on so few records may take, damaged or not. */
const BATCHES_MAX = 20_000;
const LOCK_TIMEOUT_MS = 200;
const SIZE = 4 * 2 ** 20;
const SHAPE = { span: 8, neighbourhood: 4, inlineBytes: 40, fanout: 4 };

interface NamedWord {
  name: string;
  address: Address;
}

/** Long ones have their separators in blocks of their own. */
function keyOf(i: number): string {
  return i % 3 === 0 ? `key ${100 + i}` : `${'a longer key: '.repeat(3)}${100 + i}`;
}

function textOf(i: number): string {
  return `value ${i} `.repeat(1 + (i % 5));
}

function* reading(address: Address, bytes: number): Operation<Scratch> {
  const words = new Scratch(bytes);
  yield new Batch().read(address, bytes, words, 0);
  return words;
}

/** A pool with one store; `wordsOf` names its words. No client has it open afterwards. */
function sampleOf<I extends ChimeIndex | HopscotchIndex>(
  kind: typeof CHIME | typeof HOPSCOTCH,
  work: Work,
  wordsOf: (client: ByHand<I>) => NamedWord[],
): { pool: DamagedPool; words: NamedWord[] } {
  const ends: (() => void | Promise<void>)[] = [];
  const scope: Scope = { after: (end) => ends.push(end) };
  const client = clientOf<I>(kind, scope, SHAPE, { size: SIZE });
  client.pool.enter();
  // Not in ascending order, which leaves full leaves.
  for (let i = 0; i < KEYS; i++) {
    const one = (i * 29) % KEYS;
    const request = requestFor(client, keyOf(one), textOf(one));
    client.pool.run(client.index.write(request as never, ALWAYS));
  }
  const words = wordsOf(client);
  client.pool.exit();
  for (const end of ends) void end();
  const index = kind === CHIME ? 'chime' : 'hopscotch';
  return { pool: new DamagedPool(index, work, client.handle), words };
}

/** The words of a leaf: header, replica, one item inline and one indirect, one empty entry. */
function leafWords(
  { pool }: Pick<ByHand, 'pool'>,
  geometry: LeafGeometry,
  leaf: Address,
  name: string,
): NamedWord[] {
  const image = pool.run(reading(leaf, geometry.leafBytes));
  const at: [string, number][] = [];
  for (let word = 0; word < HEADER_BYTES; word += 8) at.push([`header ${word}`, word]);
  if (geometry.replicas > 0) at.push(['replica', geometry.replicaAt(0)]);
  const kinds = new Set<number>();
  for (const entry of geometry.entriesAt) {
    const item = itemHigh(image, entry);
    const kind = isEmpty(item) ? 0 : item >>> 30;
    if (kinds.has(kind)) continue;
    kinds.add(kind);
    for (let word = 0; word < geometry.entryBytes; word += 8) {
      at.push([`entry of kind ${kind}: ${word}`, entry + word]);
    }
  }
  const words = at.map(([what, offset]) => ({ name: `${name}, ${what}`, address: leaf + offset }));
  if (geometry.replicas > 0 && isLong(pivotBytesIn(image, BOUNDS_AT))) {
    words.push({ name: `${name}, long pivot`, address: pivotBlockIn(image, BOUNDS_AT) });
  }
  return words;
}

function nodeWords({ pool }: ByHand<ChimeIndex>, { low, high }: Link, name: string): NamedWord[] {
  const address = addressOfLink(low, high);
  const image = pool.run(reading(address, 64));
  const children = image.i32[CHILDREN_AT >> 2];
  const ends = LINKS_AT + 8 * children;
  const separators = ends + 8 * Math.ceil((children - 1) / 2);
  const at = {
    identity: 0,
    'child count': CHILDREN_AT,
    'first link': LINKS_AT,
    'last link': ends - 8,
    'ends of separators': ends,
    separators,
  };
  return Object.entries(at).map(([what, offset]) => ({
    name: `${name}, ${what}`,
    address: address + offset,
  }));
}

/** Words of every kind of node: of the root, of a node above leaves, and of some leaves. */
function chimeWords(client: ByHand<ChimeIndex>): NamedWord[] {
  const { pool, index } = client;
  const { tree } = index;
  const nodes: Link[] = [];
  const leaves: Link[] = [];
  const walk = pool.run(NodeWalk.begin(tree));
  for (;;) {
    const leaf = pool.run(walk.nextLeaf((link) => nodes.push(link)));
    if (leaf === undefined) break;
    leaves.push(leaf.link);
  }
  assert.ok(nodes.length > 4 && leaves.length > 12, `${nodes.length}, ${leaves.length}`);
  const words = [{ name: 'root link', address: tree.root }];
  words.push(...nodeWords(client, nodes[0], 'root'));
  words.push(...nodeWords(client, nodes[nodes.length - 1], 'node above leaves'));
  for (const i of [0, leaves.length >> 1, leaves.length - 1]) {
    const { low, high } = leaves[i];
    words.push(...leafWords(client, tree.geometry, addressOfLink(low, high), `leaf ${i}`));
  }
  return words;
}

function hopscotchWords(client: ByHand<HopscotchIndex>): NamedWord[] {
  const { directory, geometry } = client.index.table;
  const words = [
    { name: 'depth', address: directory.parts.root },
    { name: 'directory entry', address: directory.parts.entry(1) },
  ];
  for (const segment of directory.subtables().slice(0, 3)) {
    words.push(...leafWords(client, geometry, segment, `segment at ${segment}`));
  }
  return words;
}

/** Other words that a word may become: also the root link, which makes circles of links. */
function valuesFor(word: bigint, root: bigint): bigint[] {
  const flips = [0n, 5n, 16n, 31n, 32n, 41n, 47n, 55n, 63n].map((bit) => word ^ (1n << bit));
  const sizes = [0n, -1n, 1n, 0xffffn, 0x0fff_ffffn, 0x7fff_ffffn, 2n ** 40n];
  return [...sizes, word + 1n, word - 1n, root, ...flips];
}

function useStore(pool: DamagedPool, attempt: Attempt): void {
  let opened: Store | undefined;
  attempt('open', () => {
    opened = openSync(pool.handle, { create: false, lockTimeoutMs: LOCK_TIMEOUT_MS });
  });
  const store = opened;
  if (store !== undefined) {
    attempt('size', () => store.size);
    attempt('walk', () => [...store]);
    attempt('walk of keys', () => [...store.keys()]);
    attempt('page', () => store.scanPage(0, 50));
    if (pool.index === 'chime') useOrder(store, attempt);
    for (let i = 0; i < KEYS; i += 5) attempt('get', () => store.get(keyOf(i)));
    attempt('get of an absent key', () => store.get('absent'));
    attempt('get many', () => store.getMany(Array.from({ length: KEYS }, (_, i) => keyOf(i))));
    for (let i = 2; i < KEYS; i += 9) attempt('set', () => store.set(keyOf(i), textOf(i + 1)));
    for (let i = 0; i < 24; i++) attempt('insert', () => store.set(`${keyOf(3 * i)} new`, 'new'));
    for (let i = 1; i < KEYS; i += 2) attempt('delete', () => store.delete(keyOf(i)));
    attempt('stats', () => store.stats());
    attempt('clear', () => store.clear());
  }
  attempt('close', () => store?.close());
}

function useOrder(store: Store, attempt: Attempt): void {
  const range = { gte: keyOf(10), lt: keyOf(40) };
  attempt('range', () => [...store.entries(range)]);
  attempt('reverse range', () => [...store.entries({ ...range, reverse: true })]);
  attempt('reverse', () => [...store.keys({ reverse: true })]);
  attempt('last', () => store.last());
  attempt('count', () => store.count(range));
}

function* casesOf(
  pool: DamagedPool,
  words: readonly NamedWord[],
): Generator<NamedWord & { value: bigint }> {
  const at = ({ address }: NamedWord) => [regionOf(address), offsetOf(address) / 8] as const;
  const [region, index] = at(words[0]);
  const root = pool.regions[region][index];
  for (const word of words) {
    const [region, index] = at(word);
    const before = pool.regions[region][index];
    for (const value of valuesFor(before, root)) {
      if (BigInt.asIntN(64, value) === before) continue;
      yield { ...word, value };
    }
  }
}

/** Calls that do not end soon, or without a code: of each step-th word and value. */
function faultsOf(pool: DamagedPool, words: readonly NamedWord[], step: number): string[] {
  const faults = new Set<string>();
  let cases = 0;
  for (const { name, address, value } of casesOf(pool, words)) {
    if (cases++ % step !== 0) continue;
    const checking = (attempt: Attempt) => attempt('check', () => checkSync(pool.handle));
    for (const calls of [checking, (attempt: Attempt) => useStore(pool, attempt)]) {
      pool.restore();
      pool.regions[regionOf(address)][offsetOf(address) / 8] = value;
      for (const [call, outcome] of pool.attempts(calls, BATCHES_MAX)) {
        if (!outcome.startsWith('raw')) continue;
        faults.add(`${name} = ${BigInt.asUintN(64, value).toString(16)}: ${call}: ${outcome}`);
      }
    }
  }
  pool.restore();
  assert.ok(cases > step);
  return [...faults];
}

test('chime: lengths and numbers that no node has end calls soon, with a code', (t) => {
  const { pool, words } = sampleOf<ChimeIndex>(CHIME, new Work(t), chimeWords);
  const isCounted = ({ name }: NamedWord) =>
    name === 'node above leaves, child count' || name === `leaf 0, header ${BOUNDS_AT + 8}`;
  const faults = faultsOf(pool, words.filter(isCounted), 3);
  assert.equal(faults.length, 0, faults.join('\n'));
});

test('chime: any damaged word of a node ends calls soon, with an answer or a code', (t) => {
  const { pool, words } = sampleOf<ChimeIndex>(CHIME, new Work(t), chimeWords);
  const faults = faultsOf(pool, words, STEP);
  assert.equal(faults.length, 0, faults.join('\n'));
});

test('hopscotch: any damaged word of a segment ends calls soon, with an answer or a code', (t) => {
  const { pool, words } = sampleOf<HopscotchIndex>(HOPSCOTCH, new Work(t), hopscotchWords);
  const faults = faultsOf(pool, words, STEP);
  assert.equal(faults.length, 0, faults.join('\n'));
});
