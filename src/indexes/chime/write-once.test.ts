import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertSameAtOnce } from '../../store/test-support/at-once.ts';
import { clientOf } from '../../store/test-support/by-hand.ts';
import { HOPSCOTCH } from '../hopscotch/hopscotch.ts';
import { CHIME } from './chime.ts';

const WRITES = 4000;
const LEAF = { span: 8, neighbourhood: 4 };

for (const [kind, shape] of [
  [CHIME, { ...LEAF, fanout: 4 }],
  [HOPSCOTCH, { ...LEAF, initialDepth: 0 }],
] as const) {
  test(`writeOnce executes what write yields, or leaves it to that: ${kind.manifest.name}`, (t) => {
    const [plain, fast] = [0, 1].map(() => clientOf(kind, t, shape, {}));
    const first = assertSameAtOnce(plain, fast, WRITES);
    assert.ok(first > WRITES / 2, `${first} at once`);
    assert.ok(first < (9 * WRITES) / 10, `only ${WRITES - first} left to write`);
  });
}
