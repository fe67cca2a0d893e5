import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ALWAYS, type Condition, IF_ABSENT } from '../../../src/indexes/contract.ts';
import { LeafGeometry, type LeafShape } from '../../../src/indexes/substrates/leaf/layout.ts';
import type { LeafClient } from '../../../src/indexes/substrates/leaf/leaf-client.ts';
import { CHIME_CANARIES } from '../canaries/chime.ts';
import { HOPSCOTCH_CANARIES } from '../canaries/hopscotch.ts';
import { type Call, LAST_SEEN } from '../checks/history.ts';
import type { Scope } from '../exhaustive/scope.ts';
import { searchStops } from '../exhaustive/stops.ts';
import { scopeOf } from '../exhaustive/tests/support/searched.ts';
import { NameHasher } from '../schedules/keys.ts';
import { CHIME_SUBJECT } from '../subjects/chime.ts';
import { HOPSCOTCH_SUBJECT } from '../subjects/hopscotch.ts';
import type { Subject } from '../subjects/subject.ts';

const INDEXES = [
  [CHIME_SUBJECT, CHIME_CANARIES],
  [HOPSCOTCH_SUBJECT, HOPSCOTCH_CANARIES],
] as const;
const LATE = 'both sequences of a search are read before its entries';

type Place = readonly [prefix: string, home: number];

/** Keys with these prefixes, by which they are ordered, and these homes. */
function keysAt(places: readonly Place[], shape: LeafShape): string[] {
  const geometry = new LeafGeometry(shape);
  const hasher = new NameHasher(shape.seed);
  return places.map(([prefix, home], i) => {
    for (let number = 0; ; number++) {
      const name = `${prefix}${i}-${number}`;
      if (geometry.homeOf(hasher.of(name).h2) === home) return name;
    }
  });
}

/** Leaves of four entries, in neighbourhoods of two. */
function smallLeaves(
  subject: Subject,
  places: readonly Place[],
): Pick<Scope, 'parameters' | 'keys'> {
  const parameters = { ...subject.smallest, span: 4, neighbourhood: 2 };
  const { inlineBytes, accessWords, seed } = parameters as unknown as LeafShape;
  const keys = keysAt(places, { span: 4, neighbourhood: 2, inlineBytes, accessWords, seed });
  return { parameters, keys };
}

function put(key: number, version = 1000 * (key + 1), condition: Condition = ALWAYS): Call {
  return { key, kind: 'write', condition, expected: LAST_SEEN, value: `${version}`, version };
}

/**
 * Entry 0 of the leaf is empty, and keys 1 and 2 stand one entry behind their homes 0 and 1. To
 * insert key 4 at its home 2, the first client moves both towards their homes. Notes each path.
 */
function movesBeside(subject: Subject, others: readonly Call[], paths: number[]): Scope {
  const noting: Subject = {
    ...subject,
    hurry(index) {
      subject.hurry(index);
      const { hopPath } = (Reflect.get(index, 'tree') ?? Reflect.get(index, 'table')) as LeafClient;
      const { find } = hopPath;
      hopPath.find = (...leaf) => {
        paths.push(find.apply(hopPath, leaf));
        return paths.at(-1) as number;
      };
    },
  };
  return {
    ...scopeOf(noting, 'split-search'),
    ...smallLeaves(
      subject,
      [0, 0, 1, 2, 2].map((home, i) => [`${i}`, home]),
    ),
    before: [put(0), put(1), put(2), put(3), { key: 0, kind: 'remove' }],
    clients: [[put(4)], [...others]],
  };
}

const SEARCHES: readonly Call[] = [1, 2].map((key) => ({ key, kind: 'search' }));

/**
 * The first client splits a full leaf of CHIME, which divides by order. Its key 4 takes the entry
 * of key 1, which goes to the sibling, while its home 0 loses no key.
 */
function splitBeside(subject: Subject, own: readonly Call[], others: readonly Call[]): Scope {
  const places: Place[] = [
    ['a', 0],
    ['c', 1],
    ['d', 2],
    ['b', 3],
    ['a', 0],
  ];
  return {
    ...scopeOf(subject, 'split-search'),
    ...smallLeaves(subject, places),
    before: [put(0), put(1), put(2), put(3)],
    clients: [[...own], [...others]],
  };
}

for (const [subject, canaries] of INDEXES) {
  const { name } = subject.kind.manifest;
  test(`${name} withstands a stop and a death where items move towards their homes`, () => {
    for (const others of [SEARCHES, [put(2, 9000), put(1, 9001)]]) {
      const paths: number[] = [];
      const { failure, crashed } = searchStops(movesBeside(subject, others, paths), {
        crashes: true,
      });
      assert.equal(failure, undefined);
      assert.ok(crashed > 50, `${crashed} deaths`);
      assert.ok(paths.filter((end) => end === 0).length > crashed);
    }
  });
  test(`${name}: the canary is caught where items move: ${LATE}`, () => {
    const canary = canaries.find((one) => one.name.endsWith(LATE));
    assert.ok(canary);
    assert.ok(searchStops(movesBeside(subject, SEARCHES, []), { canary }).failure);
  });
}

test('chime: a split puts its key where an item was that goes to the sibling', () => {
  const scope = splitBeside(CHIME_SUBJECT, [put(4), { key: 4, kind: 'search' }], SEARCHES);
  assert.equal(searchStops(scope, { crashes: true }).failure, undefined);
});
test('chime: a key that comes while its leaf is released for a split has one entry', () => {
  const insert = (key: number, version?: number) => put(key, version, IF_ABSENT);
  const others: Call[] = [{ key: 1, kind: 'remove' }, insert(4, 9000), insert(1, 9001)];
  const scope = splitBeside({ ...CHIME_SUBJECT, stock: undefined }, [insert(4)], others);
  assert.equal(searchStops(scope, { only: 0 }).failure, undefined);
});
