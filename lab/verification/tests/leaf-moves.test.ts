import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ALWAYS } from '../../../src/indexes/contract.ts';
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

/** Keys with these homes, in ascending order. */
function keysAt(homes: readonly number[], shape: LeafShape): string[] {
  const geometry = new LeafGeometry(shape);
  const hasher = new NameHasher(shape.seed);
  return homes.map((home, i) => {
    for (let number = 0; ; number++) {
      const name = `${i}-${number}`;
      if (geometry.homeOf(hasher.of(name).h2) === home) return name;
    }
  });
}

let values = 0;

function put(key: number): Call {
  const version = ++values * 1000;
  return {
    key,
    kind: 'write',
    condition: ALWAYS,
    expected: LAST_SEEN,
    value: `${version}`,
    version,
  };
}

/**
 * Entry 0 of the leaf is empty, and keys 1 and 2 stand one entry behind their homes 0 and 1. To
 * insert key 4 at its home 2, the first client moves both towards their homes. Notes each path.
 */
function movesBeside(subject: Subject, others: readonly Call[], paths: number[]): Scope {
  const parameters = { ...subject.smallest, span: 4, neighbourhood: 2 };
  const { inlineBytes, accessWords, seed } = parameters as unknown as LeafShape;
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
    parameters,
    keys: keysAt([0, 0, 1, 2, 2], { span: 4, neighbourhood: 2, inlineBytes, accessWords, seed }),
    before: [put(0), put(1), put(2), put(3), { key: 0, kind: 'remove' }],
    clients: [[put(4)], [...others]],
  };
}

const SEARCHES: readonly Call[] = [1, 2].map((key) => ({ key, kind: 'search' }));

for (const [subject, canaries] of INDEXES) {
  const { name } = subject.kind.manifest;
  test(`${name} withstands a stop and a death where items move towards their homes`, () => {
    for (const others of [SEARCHES, [put(2), put(1)]]) {
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
