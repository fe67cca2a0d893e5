import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { OpenOptions } from '../api.ts';
import { createSync, inspectSync, openSync } from '../open.ts';
import { growSync } from '../pools/grow.ts';
import { throwsCode } from './support/codes.ts';
import { freshUrl, keepOpen } from './support/pools.ts';

const MIB = 2 ** 20;

for (const kind of ['shm', 'memory'] as const) {
  test(`${kind}: sizes of pools and bounds are numbers or text`, (t) => {
    const url = freshUrl(t, kind);
    const options = { size: '64m', regionSize: '16MiB', store: 'b', maxBytes: '1m' } as const;
    const store = keepOpen(t, openSync(url, options));
    const { sizeMax, regionSize } = inspectSync(store.handle);
    assert.deepEqual([sizeMax, regionSize], [64 * MIB, 16 * MIB]);
    assert.equal(store.stats().bound?.maxBytes, MIB);
    const near = openSync(store.handle, { store: 'b', nearCache: { maxBytes: '1m' } });
    assert.equal(keepOpen(t, near).name, 'b');
    if (kind === 'shm') assert.equal(growSync(url, { size: '128m' }).sizeMax, 128 * MIB);
  });
}

test('text that is no size is refused, with the option that it was given for', (t) => {
  const url = freshUrl(t, 'shm');
  const options: OpenOptions[] = [
    { size: '4x' },
    { size: '' },
    { regionSize: 'large' },
    { maxBytes: '1.3' },
    { nearCache: { maxBytes: '-1' } },
  ];
  for (const wrong of options) {
    throwsCode('SW_INVALID_ARGUMENT', () => openSync(url, wrong), JSON.stringify(wrong));
  }
  assert.throws(() => createSync(url, { size: '4x' }), /size: '4x' is not a size/);
});
