import assert from 'node:assert/strict';
import { test } from 'node:test';
import { INDEX_KINDS } from '../../indexes/kinds.ts';
import type { IndexName } from '../../store/api.ts';
import * as library from '../../store/open.ts';
import { freshUrl, keepOpen, SMALL } from '../../store/tests/support/pools.ts';
import { stepwell } from './support/terminal.ts';

for (const { manifest } of INDEX_KINDS) {
  const index = manifest.name as IndexName;
  test(`keys lists the keys of a store with the index ${index}`, async (t) => {
    const url = freshUrl(t, 'shm');
    const store = keepOpen(t, library.openSync(url, { ...SMALL, store: 's', index }));
    for (const key of ['user:1', 'user:2', 'other', 'é']) store.set(key, 'v');
    const keys = async (...words: string[]) => {
      const command = ['keys', url, '--store', 's', ...words];
      const { code, out, err } = await stepwell(command, {
        library: async () => library,
      });
      assert.equal(code, 0, err);
      return out.split('\n').slice(0, -1).sort();
    };
    assert.deepEqual(await keys(), ['other', 'user:1', 'user:2', 'é']);
    assert.deepEqual(await keys('--prefix', 'user:'), ['user:1', 'user:2']);
    assert.equal((await keys('--limit', '3')).length, 3);
    assert.deepEqual(await keys('--prefix', 'none'), []);
    const hex = Buffer.from('user:').toString('hex');
    assert.deepEqual(await keys('--hex', '--prefix', hex), [`${hex}31`, `${hex}32`]);
  });
}
