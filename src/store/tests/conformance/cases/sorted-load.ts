import assert from 'node:assert/strict';
import type { Key, Value } from '../../../api.ts';
import { rejectsCode } from '../../support/codes.ts';
import { collect, cramped, type Suite } from './suite.ts';

const entriesOf = (count: number) =>
  Array.from({ length: count }, (_, i): [Key, Value] => [
    `k${String(i).padStart(4, '0')}`,
    `value ${i}`,
  ]);

/** Indexes that can be loaded in order; the others say that they cannot. */
const LOADED = new Set(['chime']);

export function sortedLoadCases({ check, manifest }: Suite): void {
  if (!LOADED.has(manifest.name)) {
    check('what cannot be loaded in order says so', async ({ s }) => {
      await rejectsCode('SW_UNSUPPORTED', () => s.loadSorted(entriesOf(3)), manifest.name);
      assert.equal(await s.size(), 0);
    });
    return;
  }

  check(
    'an empty store is loaded in order, all at once',
    async ({ s, attach }) => {
      const entries = [...entriesOf(300), ['large', 'x'.repeat(40_000)] as [Key, Value]];
      assert.equal(await s.loadSorted(entries), entries.length);
      const other = attach();
      assert.deepEqual(await collect(other.scan({})), entries);
      assert.equal(await other.count(), entries.length);
      await other.set('k0100', 'another');
      assert.equal(await s.get('k0100'), 'another');
      assert.equal(await s.delete('k0101'), true);
      await rejectsCode('SW_INVALID_ARGUMENT', () => s.loadSorted(entriesOf(1)), 'not empty');
      assert.equal(await s.size(), entries.length - 1);
    },
    cramped(manifest),
  );

  check(
    'a load that fails stores nothing',
    async ({ s }) => {
      const [first, second, ...rest] = entriesOf(50);
      const wrong = [...rest, first];
      const twice = [first, second, second];
      await rejectsCode('SW_INVALID_ARGUMENT', () => s.loadSorted(wrong), 'out of order');
      await rejectsCode('SW_INVALID_ARGUMENT', () => s.loadSorted(twice), 'twice');
      for (const stray of [5, null, 'kv', {}]) {
        const load = () => s.loadSorted([first, stray as unknown as typeof first]);
        await rejectsCode('SW_INVALID_ARGUMENT', load, `an entry that is none: ${stray}`);
      }
      const broken = function* () {
        yield* rest;
        throw new Error('of its own');
      };
      await assert.rejects(async () => s.loadSorted(broken()), /of its own/);
      assert.equal(await s.size(), 0);
      assert.deepEqual(await collect(s.scan({})), []);
      assert.equal(await s.loadSorted([]), 0);
      assert.equal(await s.loadSorted([first, second, ...rest]), 50);
    },
    cramped(manifest),
  );

  check('a store that was cleared can be loaded', async ({ s }) => {
    await s.setMany(entriesOf(500));
    await s.clear();
    assert.equal(await s.loadSorted(entriesOf(20)), 20);
    assert.equal(await s.size(), 20);
  });
}
