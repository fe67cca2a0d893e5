import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Proof } from '../../../indexes/substrates/proof.ts';
import { NONE } from '../key-table.ts';
import { ENTRY_BYTES, NearCache } from '../near-cache.ts';

/** Entries that are smaller than the cache reckons with make it grow again and again. */
test('a cache has all of its entries after it has grown', () => {
  const settings = { maxEntries: 5000, maxBytes: 600 * ENTRY_BYTES, freeze: false };
  const cache = new NearCache(settings);
  const proof = new Proof();
  for (let i = 0; i < 6000; i++) {
    proof.begin(8 * i, i, -i);
    assert.notEqual(cache.keep(`key ${i}`, i, i, 1, proof, 1, i), NONE);
    const first = cache.find(`key ${Math.max(0, i - 4999)}`);
    assert.equal(cache.valueOf(first), Math.max(0, i - 4999));
    assert.equal(cache.versions[first], cache.until[first]);
  }
  assert.equal(cache.size, 5000);
  for (let i = 0; i < 6000; i++) {
    const entry = cache.find(`key ${i}`);
    assert.equal(entry === NONE, i < 1000, `key ${i}`);
    if (entry !== NONE) assert.equal(cache.valueOf(entry), i);
  }
});
