import assert from 'node:assert/strict';
import { test } from 'node:test';
import { foundText, requestFor, sepHashByHand } from '../../../store/tests/support/by-hand.ts';
import { ALWAYS, IF_ABSENT, IF_PRESENT, INSERTED, REFUSED, REPLACED } from '../../contract.ts';
import { CANDIDATES_MAX } from '../../substrates/request.ts';

/** All keys are in one segment for ever, and all entries stand in one MainSegment. */
const ONE_SEGMENT = { segmentBytes: 1024, ratio: 64, initialDepth: 0, maxDepth: 0 };

test('more keys with the same fingerprints than a request has room for are all found', (t) => {
  const client = sepHashByHand(t, { sephash: ONE_SEGMENT });
  const { pool, index } = client;
  const alike = (key: string, value?: string) => {
    const request = requestFor(client, key, value);
    // Whoever knows the seed, or a weakness of the hash, can choose such keys.
    request.hash.h2 = 0x1234;
    return request;
  };
  const get = (key: string) => {
    const request = alike(key);
    return pool.run(index.search(request)) ? foundText(request) : undefined;
  };
  const count = CANDIDATES_MAX + 200;
  for (let i = 0; i < count; i++) pool.run(index.write(alike(`k${i}`, `v${i}`), ALWAYS));
  assert.ok(index.table.merges > 3);
  for (let i = 0; i < count; i++) assert.equal(get(`k${i}`), `v${i}`);
  for (let i = 0; i < count; i += 50) {
    assert.equal(pool.run(index.write(alike(`k${i}`, 'twice'), IF_ABSENT)), REFUSED);
    assert.equal(pool.run(index.write(alike(`k${i}`, 'new'), IF_PRESENT)), REPLACED);
    assert.equal(pool.run(index.remove(alike(`k${i + 1}`))), true);
    assert.equal(pool.run(index.remove(alike(`k${i + 1}`))), false);
    assert.equal(pool.run(index.write(alike(`k${i + 1}`, 'back'), IF_ABSENT)), INSERTED);
    assert.deepEqual([get(`k${i}`), get(`k${i + 1}`)], ['new', 'back']);
  }
});
