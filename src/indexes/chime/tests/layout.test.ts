import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { HEADER_BYTES, SLOT_UNITS_MAX, sizeClassOf } from '../../../records/layout.ts';
import { REGION_STRIDE, Scratch, UNIT_BYTES } from '../../../verbs/index.ts';
import { ChimeGeometry, chimeShape, unitsBeside } from '../geometry.ts';
import { isVacantAt, makeRoom } from '../hopscotch.ts';
import {
  childIn,
  cutRoutes,
  decodeNode,
  encodeNode,
  NODE_BYTES_MAX,
  nodeBytes,
  PackedSeparators,
  packedNode,
  packRoutes,
  type Routes,
  sizeOf,
} from '../internal-node.ts';
import { compareWhole, separatorOf } from '../keys.ts';
import {
  ABSORB,
  addressOfLink,
  FROZEN,
  INTERNAL,
  identityHigh,
  identityLow,
  linkHigh,
  linkLow,
  sizeOfLink,
} from '../link.ts';
import { AT_KEY, AT_LAST, BELOW_KEY, CachedNode, childAmong, NodeBook } from '../node-book.ts';
import {
  distanceOf,
  HINT_MAX,
  hintOf,
  isLive,
  lengthOf,
  recordOf,
  slotHigh,
  slotLow,
  withDistance,
  withHint,
} from '../slot.ts';
import type { ChimeRequest } from '../tree.ts';

const key = fc.uint8Array({ maxLength: 12 });
const ADDRESSES = [UNIT_BYTES, 2 ** 31 - 64, 5 * REGION_STRIDE + 128, 1000 * REGION_STRIDE];

test('a link holds an address, flags, a size and a tag', () => {
  for (const address of ADDRESSES) {
    const low = linkLow(address);
    const high = linkHigh(address, INTERNAL | ABSORB, 11, 65_535);
    assert.equal(addressOfLink(low, high), address);
    assert.equal(sizeOfLink(high), 11);
    assert.equal(high >>> 16, 65_535);
    assert.notEqual(high & INTERNAL, 0);
    assert.equal(high & FROZEN, 0);
    assert.equal(addressOfLink(low, high | FROZEN), address);
  }
});

test('an identity depends on block, tag and seed, and not on FROZEN', () => {
  const [address] = ADDRESSES;
  const low = linkLow(address);
  const of = (tag: number, seed: number, flags = 0) => {
    const high = linkHigh(address, flags, 0, tag);
    return `${identityLow(low, high, seed)} ${identityHigh(low, high, seed)}`;
  };
  assert.equal(of(3, 7), of(3, 7, FROZEN));
  assert.equal(new Set([of(3, 7), of(4, 7), of(3, 8), of(3, 7, INTERNAL)]).size, 4);
});

test('a slot holds a record, its size, a fingerprint, a distance and a hint', () => {
  for (const address of ADDRESSES) {
    const low = slotLow(address);
    const high = slotHigh(address, 0xab, 255, 15, HINT_MAX);
    assert.equal(recordOf(low, high), address);
    assert.equal(lengthOf(high), 256);
    assert.equal(hintOf(high), HINT_MAX);
    assert.equal(hintOf(withHint(high, 5)), 5);
    assert.equal(withHint(withHint(high, 0), HINT_MAX), high);
    assert.equal(recordOf(low, withHint(high, 0)), address);
    assert.equal(high >>> 24, 0xab);
    assert.equal(distanceOf(high), 15);
    assert.equal(distanceOf(withDistance(high, 2)), 2);
    assert.equal(recordOf(low, withDistance(high, 0)), address);
    assert.equal(hintOf(withDistance(high, 0)), HINT_MAX);
    assert.ok(isLive(low, high));
  }
  assert.ok(!isLive(0, 0));
});

test('a slot says the size of the block that a record of each length stands in', () => {
  for (let units = 1; units <= SLOT_UNITS_MAX; units++) {
    const high = slotHigh(UNIT_BYTES, 1, units, 0, 0);
    assert.equal(lengthOf(high), sizeClassOf(units));
    assert.equal(high >>> 24, 1);
  }
  assert.equal(lengthOf(slotHigh(UNIT_BYTES, 1, 5000, 0, 0)), sizeClassOf(SLOT_UNITS_MAX));
});

test('nodes take blocks of sizes that records do not take', () => {
  const spans = [2, 8, 63, 64, 65, 100, 1024];
  const leaves = spans.map((span) => new ChimeGeometry(chimeShape({ span }, 1)).leafUnits);
  for (const units of [...leaves, ...[1, 8, 16, 256, 2048].map(unitsBeside)]) {
    assert.notEqual(sizeClassOf(units), units);
  }
  assert.equal(new ChimeGeometry(chimeShape({}, 1)).leafBytes, 520);
});

test('homes are entries, and all of them', () => {
  const geometry = new ChimeGeometry(chimeShape({ span: 5, neighbourhood: 3 }, 1));
  const homes = [0, 0x33333334, 0x66666667, 0x99999a00, 0xcccccd00, 0xffffffff];
  assert.deepEqual(
    homes.map((hash) => geometry.homeOf(hash | 0)),
    [0, 1, 2, 3, 4, 4],
  );
});

test('parameters out of range are refused', () => {
  const wishes = [{ span: 1 }, { span: 1025 }, { neighbourhood: 1 }, { neighbourhood: 17 }];
  for (const wish of [...wishes, { fanout: 1 }, { span: 4, neighbourhood: 5 }, { span: 4.5 }]) {
    assert.throws(() => chimeShape(wish, 1), { code: 'SW_INVALID_ARGUMENT' });
  }
});

test('keys are in lexicographic order of their bytes, prefixes first', () => {
  fc.assert(
    fc.property(key, key, (a, b) => {
      assert.equal(Math.sign(compareWhole(a, b)), Buffer.compare(a, b));
    }),
  );
});

test('a separator is above the one key and not above the other, and no longer than need be', () => {
  fc.assert(
    fc.property(key, key, (a, b) => {
      if (compareWhole(a, b) === 0) return;
      const [below, above] = compareWhole(a, b) < 0 ? [a, b] : [b, a];
      const separator = separatorOf(below, above);
      assert.ok(compareWhole(below, separator) < 0 && compareWhole(separator, above) <= 0);
      assert.ok(compareWhole(separator.slice(0, -1), below) <= 0);
    }),
  );
});

/** Routes over sorted separators; the links count. */
function routes(separators: Uint8Array[]): Routes {
  const links = Int32Array.from({ length: 2 * separators.length + 2 }, (_, i) => i + 1);
  return { links, separators: separators.toSorted(compareWhole) };
}

test('an internal node is what was written, and leads each key to its child', () => {
  fc.assert(
    fc.property(fc.array(key, { maxLength: 40 }), key, (separators, wanted) => {
      const node = routes(separators);
      const image = new Scratch(UNIT_BYTES << sizeOf(node));
      encodeNode(node, image);
      assert.deepEqual(decodeNode(image), { ...node, links: node.links });
      const packed = packedNode(image);
      assert.deepEqual(packed.links, node.links);
      assert.deepEqual(
        node.separators.map((_, i) => packed.separators.at(i)),
        node.separators,
      );
      const child = childIn(image, wanted, 0, wanted.length);
      const below = node.separators.filter((each) => compareWhole(each, wanted) <= 0);
      assert.equal(child, below.length);
    }),
  );
});

test('signposts lead where comparisons of whole keys would', () => {
  const few = fc.uint8Array({ maxLength: 7, max: 2 });
  const prefix = fc.uint8Array({ maxLength: 9, max: 1 });
  const all = fc.uniqueArray(few, {
    maxLength: 20,
    comparator: (a, b) => compareWhole(a, b) === 0,
  });
  fc.assert(
    fc.property(prefix, all, fc.oneof(few, key), fc.boolean(), (before, tails, tail, bare) => {
      const separators = tails.map((each) => Uint8Array.of(...before, ...each)).sort(compareWhole);
      const wanted = bare ? tail : Uint8Array.of(...before, ...tail);
      const node = new CachedNode(new NodeBook(), packRoutes(routes(separators)), 1);
      const outgoing = new Scratch(64);
      outgoing.u8.fill(9).set(wanted, HEADER_BYTES);
      for (const side of [BELOW_KEY, AT_KEY, AT_LAST] as const) {
        const bound = side === AT_KEY ? 0 : -1;
        const below = separators.filter((each) => compareWhole(each, wanted) <= bound);
        const expected = side === AT_LAST ? separators.length : below.length;
        const request = { outgoing, keyBytes: wanted.length, side } as ChimeRequest;
        assert.equal(node.childFor(request), expected);
        assert.equal(childAmong(PackedSeparators.of(separators), request), expected);
      }
    }),
  );
});

test('cut routes keep every child and every separator, and fit', () => {
  const long = fc.nat(3).map((n) => new Uint8Array(65_535).fill(n));
  const separators = fc.array(fc.oneof({ weight: 5, arbitrary: key }, long), { maxLength: 30 });
  fc.assert(
    fc.property(separators, fc.integer({ min: 2, max: 9 }), (all, fanout) => {
      const whole = routes(all);
      const { nodes, between } = cutRoutes(whole, fanout);
      assert.deepEqual(Int32Array.from(nodes.flatMap(({ links }) => [...links])), whole.links);
      const again = nodes.flatMap((node, i) => [...node.separators, ...between.slice(i, i + 1)]);
      assert.deepEqual(again, whole.separators);
      for (const { links, separators: inside } of nodes) {
        const keyBytes = inside.reduce((sum, { length }) => sum + length, 0);
        assert.ok(links.length / 2 <= fanout && inside.length === links.length / 2 - 1);
        assert.ok(nodeBytes(links.length / 2, keyBytes) <= NODE_BYTES_MAX);
      }
    }),
    { numRuns: 30 },
  );
});

/** A leaf that is filled by hopscotch insertion, entry n at first slot n + 1, until it refuses. */
function fill(span: number, neighbourhood: number, homes: readonly number[]) {
  const slots = new Int32Array(2 * span);
  const homeOfEntry: number[] = [];
  for (const home of homes) {
    if (!makeRoom(slots, home, neighbourhood)) break;
    let distance = 0;
    while (!isVacantAt(slots, (home + distance) % span)) distance++;
    assert.ok(distance < neighbourhood, 'no empty slot in the neighbourhood');
    const slot = (home + distance) % span;
    homeOfEntry.push(home);
    slots[2 * slot] = homeOfEntry.length;
    slots[2 * slot + 1] = withDistance(1, distance);
  }
  return { slots, homeOfEntry };
}

test('entries that hop stay in their neighbourhoods, and none is lost', () => {
  const shape = fc.integer({ min: 2, max: 20 }).chain((span) =>
    fc.record({
      span: fc.constant(span),
      neighbourhood: fc.integer({ min: 2, max: Math.min(16, span) }),
      homes: fc.array(fc.nat(span - 1), { maxLength: 40 }),
    }),
  );
  fc.assert(
    fc.property(shape, ({ span, neighbourhood, homes }) => {
      const { slots, homeOfEntry } = fill(span, neighbourhood, homes);
      const found = new Set<number>();
      for (let slot = 0; slot < span; slot++) {
        if (isVacantAt(slots, slot)) continue;
        const entry = slots[2 * slot];
        const distance = distanceOf(slots[2 * slot + 1]);
        assert.ok(distance < neighbourhood);
        assert.equal((homeOfEntry[entry - 1] + distance) % span, slot);
        found.add(entry);
      }
      assert.equal(found.size, homeOfEntry.length);
    }),
  );
});

test('hopping fills a fresh leaf of 64 entries to what neighbourhoods of 8 allow', () => {
  let x = 1;
  const random = () => {
    x = Math.imul(x, 1664525) + 1013904223;
    return (x >>> 0) / 2 ** 32;
  };
  const loadOf = (neighbourhood: number) => {
    let sum = 0;
    for (let run = 0; run < 300; run++) {
      const homes = Array.from({ length: 65 }, () => Math.floor(64 * random()));
      sum += fill(64, neighbourhood, homes).homeOfEntry.length / 64;
    }
    return sum / 300;
  };
  // Figure 3d and section 4.5, as the reference reproduces them: 38.6, 93.8 and 100 %.
  assert.ok(Math.abs(loadOf(2) - 0.386) < 0.03, String(loadOf(2)));
  assert.ok(Math.abs(loadOf(8) - 0.938) < 0.02, String(loadOf(8)));
  assert.ok(loadOf(16) > 0.995);
});
