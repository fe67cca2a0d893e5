import assert from 'node:assert/strict';
import type { OpenOptions, Store, Value } from '../../api.ts';
import { checkSync } from '../../open.ts';
import { attachTo, freshStore, type PoolKind, patternBytes, type Scope } from './pools.ts';

const COUNT = 60;

/** A pool with some records and a second client that looks whether they are all still there. */
export interface Witness {
  store: Store<Value>;
  url: string;
  /** Nothing lost, nobody harmed: every record is as it was put, seen by the other client. */
  assertUnharmed(): void;
}

export function witness(scope: Scope, kind: PoolKind, options: OpenOptions = {}): Witness {
  const store = freshStore(scope, kind, options);
  const other = attachTo(scope, store);
  const expected = (i: number) => patternBytes(i % 10 === 0 ? 20_000 : i, i + 1);
  for (let i = 0; i < COUNT; i++) store.set(`witness ${i}`, expected(i));
  return {
    store,
    url: store.url,
    assertUnharmed() {
      for (let i = 0; i < COUNT; i++) {
        const value = other.get(`witness ${i}`);
        assert.ok(value instanceof Uint8Array && Buffer.from(value).equals(expected(i)), `${i}`);
      }
      other.set('still writable', 'yes');
      assert.equal(store.take('still writable'), 'yes');
      assert.deepEqual(checkSync(store.handle).problems, []);
    },
  };
}
