import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { clientOf, foundText, requestFor, traced } from '../../../store/tests/support/by-hand.ts';
import { ALWAYS, type Index, type IndexKind } from '../../contract.ts';
import { INDEX_KINDS } from '../../kinds.ts';

/** Stores two keys, reads one, and removes it when its version is `after` further than read. */
function removed(kind: IndexKind, t: TestContext, after?: number) {
  const client = clientOf<Index>(kind, t, {}, {});
  const { pool, index } = client;
  const search = () => {
    const request = requestFor(client, 'k');
    return pool.run(index.search(request)) ? request.found.version : undefined;
  };
  pool.enter();
  for (const key of ['k', 'other']) {
    pool.run(index.write(requestFor(client, key, 'v'), ALWAYS));
  }
  const seen = search();
  assert.ok(seen !== undefined);
  const request = requestFor(client, 'k');
  const expected = after === undefined ? undefined : seen + after;
  const { trips, value } = traced(pool.fabric, index.remove(request, expected));
  const isThere = search() !== undefined;
  pool.exit();
  return { trips, value, isThere, request };
}

for (const kind of INDEX_KINDS) {
  test(`${kind.manifest.name}: a removal by version takes a removal's round trips`, (t) => {
    const plain = removed(kind, t);
    const same = removed(kind, t, 0);
    assert.deepEqual([same.value, same.isThere], [true, false]);
    assert.equal(same.trips.length, plain.trips.length);
    assert.equal(foundText(same.request), 'v');
    const other = removed(kind, t, 1);
    assert.deepEqual([other.value, other.isThere], [false, true]);
    assert.ok(other.trips.length <= plain.trips.length);
  });
}
