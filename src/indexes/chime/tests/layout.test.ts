import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { HEADER_BYTES, sizeClassOf } from '../../../records/layout.ts';
import { REGION_STRIDE, Scratch, UNIT_BYTES } from '../../../verbs/index.ts';
import { ChimeGeometry, chimeShape, unitsBeside } from '../geometry.ts';
import {
  allOf,
  bytesOfNode,
  childIn,
  cutRoutes,
  decodeNode,
  dropChild,
  encodeNode,
  joinRoutes,
  NODE_BYTES_MAX,
  nodeBytes,
  PackedSeparators,
  type Routes,
  sizeFor,
  sizeOf,
  splicedBytes,
  spliceNode,
  withChildren,
} from '../nodes/internal-node.ts';
import { compareWhole, separatorOf } from '../nodes/keys.ts';
import {
  ABSORB,
  addressOfLink,
  FROZEN,
  INTERNAL,
  linkHigh,
  linkLow,
  nodeIdentityHigh,
  nodeIdentityLow,
  sizeOfLink,
} from '../nodes/link.ts';
import {
  AT_KEY,
  AT_LAST,
  BELOW_KEY,
  CachedNode,
  NodeArena,
  type RoutedRequest,
} from '../nodes/node-arena.ts';
import { unitsOfNode } from '../nodes/node-io.ts';

const key = fc.uint8Array({ maxLength: 12 });
const ADDRESSES = [UNIT_BYTES, 2 ** 31 - 64, 5 * REGION_STRIDE + 128, 1000 * REGION_STRIDE];

test('a small node takes the smallest block, and a READ of it is no longer than the node', () => {
  for (const [size, units] of [
    [0, 64],
    [4, 64],
    [6, 64],
    [7, 128],
  ]) {
    const high = linkHigh(UNIT_BYTES, INTERNAL, size, 1);
    assert.equal(bytesOfNode({ high }), UNIT_BYTES << size);
    assert.equal(unitsOfNode(high), unitsBeside(units));
  }
});

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
    return `${nodeIdentityLow(low, high, seed)} ${nodeIdentityHigh(low, high, seed)}`;
  };
  assert.equal(of(3, 7), of(3, 7, FROZEN));
  assert.equal(new Set([of(3, 7), of(4, 7), of(3, 8), of(3, 7, INTERNAL)]).size, 4);
});

test('nodes take blocks of sizes that records do not take', () => {
  const spans = [2, 8, 63, 64, 65, 100, 1024];
  const leaves = spans.map((span) => new ChimeGeometry(chimeShape({ span }, 1)).leafUnits);
  for (const units of [...leaves, ...[1, 8, 16, 256, 2048].map(unitsBeside)]) {
    assert.notEqual(sizeClassOf(units), units);
  }
  assert.equal(new ChimeGeometry(chimeShape({}, 1)).leafBytes, 64 + 64 * 64 + 8 * 8);
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
function routes(separators: Uint8Array[], pair = 0): Routes {
  const links = Int32Array.from({ length: 2 * separators.length + 2 }, (_, i) => i + 1);
  return { links, separators: PackedSeparators.of(separators.toSorted(compareWhole)), pair };
}

test('an internal node is what was written, and leads each key to its child', () => {
  fc.assert(
    fc.property(fc.array(key, { maxLength: 40 }), key, (separators, wanted) => {
      const node = routes(separators);
      const image = new Scratch(UNIT_BYTES << sizeOf(node));
      encodeNode(node, image);
      assert.deepEqual(decodeNode(image), node);
      assert.deepEqual(node.separators.list(), separators.toSorted(compareWhole));
      const below = separators.filter((each) => compareWhole(each, wanted) <= 0);
      assert.equal(childIn(image, wanted, 0, wanted.length), below.length);
      assert.equal(node.separators.childOf(wanted, 0, wanted.length), below.length);
    }),
  );
});

test('a node that gets children is what its routes with them would be', () => {
  const distinct = {
    maxLength: 40,
    comparator: (a: Uint8Array, b: Uint8Array) => compareWhole(a, b) === 0,
  };
  fc.assert(
    fc.property(fc.uniqueArray(key, distinct), fc.nat(40), fc.nat(3), (all, place, count) => {
      const whole = routes(all);
      const child = Math.min(place, all.length);
      const more = Math.min(count, all.length - child);
      const keys = whole.separators.list();
      const added = keys.slice(child, child + more).map((separator, i) => {
        const at = 2 * (child + 1 + i);
        return { separator, link: { low: whole.links[at], high: whole.links[at + 1] } };
      });
      const fewer = [...whole.links];
      fewer.splice(2 * (child + 1), 2 * more);
      const before = {
        links: Int32Array.from(fewer),
        separators: PackedSeparators.of(keys.toSpliced(child, more)),
        pair: 0,
      };
      const old = new Scratch(UNIT_BYTES << sizeOf(before));
      encodeNode(before, old);
      const image = new Scratch((UNIT_BYTES << sizeOf(whole)) + 8);
      assert.equal(UNIT_BYTES << sizeFor(splicedBytes(old, added)), UNIT_BYTES << sizeOf(whole));
      spliceNode(old, child, added, image, 8);
      assert.deepEqual(decodeNode(image, 8), whole);
      assert.deepEqual(withChildren(before, child, added), whole);
    }),
  );
});

test('a node that loses a child is what its routes without it would be', () => {
  const distinct = { minLength: 1, maxLength: 40, selector: (one: Uint8Array) => one.join() };
  fc.assert(
    fc.property(fc.uniqueArray(key, distinct), fc.nat(40), (all, place) => {
      const whole = routes(all);
      const child = 1 + (place % all.length);
      const old = new Scratch(UNIT_BYTES << sizeOf(whole));
      encodeNode({ ...whole, pair: child }, old);
      const image = new Scratch((UNIT_BYTES << sizeOf(whole)) + 8);
      dropChild(old, child, image, 8);
      const links = [...whole.links];
      links.splice(2 * child, 2);
      const separators = PackedSeparators.of(whole.separators.list().toSpliced(child - 1, 1));
      const fewer = { links: Int32Array.from(links), separators, pair: 0 };
      assert.deepEqual(decodeNode(image, 8), fewer);
    }),
  );
});

test('prefixes lead where comparisons of whole keys would', () => {
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
      const node = new CachedNode(new NodeArena(), routes(separators), 1);
      const outgoing = new Scratch(64);
      outgoing.u8.fill(9).set(wanted, HEADER_BYTES);
      for (const side of [BELOW_KEY, AT_KEY, AT_LAST] as const) {
        const bound = side === AT_KEY ? 0 : -1;
        const below = separators.filter((each) => compareWhole(each, wanted) <= bound);
        const expected = side === AT_LAST ? separators.length : below.length;
        const request = { outgoing, keyBytes: wanted.length, side } as RoutedRequest;
        assert.equal(node.childFor(request), expected);
      }
    }),
  );
});

test('cut routes keep every child and every separator, and fit', () => {
  const long = fc.nat(3).map((n) => new Uint8Array(65_535).fill(n));
  const separators = fc.array(fc.oneof({ weight: 5, arbitrary: key }, long), { maxLength: 30 });
  fc.assert(
    fc.property(separators, fc.integer({ min: 2, max: 9 }), fc.nat(30), (all, fanout, marked) => {
      const pair = marked <= all.length ? marked : 0;
      const whole = routes(all, pair);
      const { nodes, between } = cutRoutes(whole, fanout);
      assert.deepEqual(Int32Array.from(nodes.flatMap(({ links }) => [...links])), whole.links);
      const again = nodes.flatMap(({ separators }, i) => {
        return [...separators.list(), ...between.slice(i, i + 1)];
      });
      assert.deepEqual(again, whole.separators.list());
      const { links, separators: joined } = joinRoutes(nodes.map(allOf), between);
      assert.deepEqual([links, joined], [whole.links, whole.separators]);
      const marks = nodes.filter((node) => node.pair > 0);
      assert.equal(marks.length, pair > 0 ? 1 : 0, 'a marked pair stays together');
      for (const node of marks) {
        assert.equal(node.links[2 * node.pair - 2], whole.links[2 * pair - 2]);
        assert.equal(node.links[2 * node.pair], whole.links[2 * pair]);
      }
      for (const { links, separators: inside } of nodes) {
        const keyBytes = inside.bytes.length;
        assert.ok(links.length / 2 <= fanout && inside.length === links.length / 2 - 1);
        assert.ok(nodeBytes(links.length / 2, keyBytes) <= NODE_BYTES_MAX);
      }
    }),
    { numRuns: 30 },
  );
});
