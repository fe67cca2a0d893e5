import assert from 'node:assert/strict';
import { test } from 'node:test';
import { throwsCode } from '../../../store/tests/support/codes.ts';
import { CycleGuard } from '../cycle-guard.ts';

test('a chain that leads back into itself is found within three rounds, a long one is none', () => {
  const guard = new CycleGuard();
  for (let tail = 0; tail < 20; tail++) {
    for (let round = 1; round < 20; round++) {
      guard.begin();
      let steps = 0;
      throwsCode('SW_POOL_CORRUPT', () => {
        for (; steps < 1000; steps++)
          guard.pass(64 * (steps < tail ? steps : tail + ((steps - tail) % round)));
      });
      assert.ok(steps <= 3 * (tail + round), `${tail} ${round}: ${steps}`);
    }
  }
  guard.begin();
  for (let i = 1; i < 1000; i++) guard.pass(64 * i);
});
