/** The requests of calls on many keys: given back whatever ends the call, and never kept beside. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { Request } from '../../../indexes/substrates/request.ts';
import type { LocalPool } from '../../../pool/local-pool.ts';
import type { OpenStore } from '../../../pool/open-stores.ts';
import type { Batch, Operation } from '../../../verbs/index.ts';
import { advance } from '../../../verbs/runners.ts';
import { LocalAttachment } from '../../local/local-client.ts';
import { clientByHand } from '../../tests/support/by-hand.ts';
import { numbered } from '../../tests/support/pools.ts';
import { StoreCalls } from '../store-calls.ts';

const KEYS = numbered('key', 32);
const SETTINGS = { name: 'default', keys: 'auto', values: 'auto', delegation: false } as const;

test('a bounded getMany gives back the requests of the keys that it leaves out', (t) => {
  const { calls, pool, made } = countedCalls(t);
  for (const key of KEYS) pool.run(calls.set(key, 'value'));
  for (let round = 0; round < 10; round++) {
    assert.equal(pool.run(calls.getMany(KEYS, { maxBytes: 5 })).length, 1);
  }
  assert.ok(made.length <= KEYS.length, `${made.length} requests for ${KEYS.length} keys`);
});

test('after many getMany in flight together only the idle requests are kept', async (t) => {
  const { calls, pool, made } = countedCalls(t);
  runTogether(
    pool,
    Array.from({ length: 40 }, () => calls.getMany(KEYS)),
  );
  assert.ok(made.length >= 40 * KEYS.length);
  // In the turn that made them the engine keeps what weak references point to.
  await new Promise((resolve) => setImmediate(resolve));
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
  const kept = made.filter((one) => one.deref() !== undefined).length;
  assert.ok(kept <= 1024, `${kept} requests are kept`);
});

/** All of them post their first batch before one goes on. */
function runTogether(pool: LocalPool, operations: Operation<unknown>[]): void {
  const batches = operations.map((operation) => advance(operation).value as Batch);
  for (const [i, operation] of operations.entries()) {
    pool.fabric.execute(batches[i]);
    pool.run(operation);
  }
}

function countedCalls(t: Parameters<typeof clientByHand>[0]) {
  const { pool, index } = clientByHand(t);
  const made: WeakRef<Request>[] = [];
  // The index itself, but for the requests that it makes.
  const counting = new Proxy(index, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== 'function') return value;
      if (name !== 'newRequest') return value.bind(target);
      return () => {
        const request = target.newRequest();
        made.push(new WeakRef(request));
        return request;
      };
    },
  });
  const store = { name: 'default', dropped: false } as OpenStore;
  const attachment = new LocalAttachment(pool, store);
  return { calls: new StoreCalls<string>(attachment, counting, SETTINGS), pool, made };
}
