import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Batch, Operation } from '../../../verbs/index.ts';
import { ALWAYS } from '../../contract.ts';
import { type Client, checked, clientOf, requestFor } from './support/client.ts';

const SHAPE = { span: 8, neighbourhood: 4, fanout: 4 };
const TOGETHER = 32;
const ROUNDS = 4;

/** Removes keys, some at a time in step; in the batch `dying` only so many steps are taken. */
function removeAll(client: Client, keys: readonly string[], dying = -1, steps = 0): void {
  for (let first = 0; first < keys.length; first += TOGETHER) {
    const some = keys.slice(first, first + TOGETHER);
    let running: Operation<boolean>[] = some.map((key) =>
      client.index.remove(requestFor(client, key)),
    );
    const dies = first / TOGETHER === dying;
    for (let step = 0; running.length > 0; step++) {
      // Nothing ends an operation of a client that is gone: no `finally` runs.
      if (dies && step === steps) return;
      running = running.filter((operation) => {
        const { done, value } = operation.next();
        if (!done) client.pool.fabric.execute(value as Batch);
        return !done;
      });
    }
  }
}

for (const steps of [0, 1, 2, 3, 4, 5, 6, 8, 12, 16, 24]) {
  test(`leaves are merged when a clearing client dies ${steps} steps into a batch`, (t) => {
    const survivor = clientOf(t, SHAPE);
    const { pool, index } = survivor;
    for (let round = 0; round < ROUNDS; round++) {
      const keys = Array.from({ length: 320 }, (_, i) => `${round} ${1000 + i}`);
      for (const key of keys) pool.run(index.write(requestFor(survivor, key, key), ALWAYS));
      const full = pool.run(index.shape()).subtables;
      const dead = clientOf(t, SHAPE, survivor.handle);
      removeAll(dead, keys, 5, steps);
      // What the batches before were in is merged already.
      const half = pool.run(index.shape()).subtables;
      assert.ok(half < 0.75 * full, `${half} of ${full} leaves`);
      removeAll(survivor, keys);
      const { problems, records } = checked(survivor);
      assert.deepEqual([problems, records], [[], 0]);
      const { subtables } = pool.run(index.shape());
      assert.ok(subtables <= 3, `${subtables} leaves after round ${round}`);
    }
  });
}
