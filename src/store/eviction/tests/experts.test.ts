import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Experts, LFU, LRU } from '../experts.ts';

/** Experts that have been asked with another weight than at first. */
function unequal(): Experts {
  const experts = new Experts();
  experts.regret(LRU, 0, 100);
  experts.regret(LRU, 50, 100);
  return experts;
}

test('an expert loses weight when a key comes back that it evicted, the more the sooner', () => {
  const losses = [0, 10, 100].map((age) => {
    const experts = new Experts();
    const { lru, lfu } = experts.regret(LRU, age, 100);
    assert.equal(lfu, 0);
    assert.ok(lru > 0);
    return 0.5 - experts.lruWeight;
  });
  assert.ok(losses[0] > losses[1] && losses[1] > losses[2] && losses[2] > 0, `${losses}`);
  const experts = new Experts();
  experts.regret(LFU, 0, 100);
  assert.ok(experts.lruWeight > 0.5);
});

test('a key that both experts named changes no weight', () => {
  const experts = unequal();
  const before = experts.lruWeight;
  assert.deepEqual(experts.regret(LRU | LFU, 0, 100), { lru: 0, lfu: 0 });
  assert.equal(experts.lruWeight, before);
});

test('each expert decides as many evictions as its weight says, wherever the turns begin', () => {
  for (const start of [0, 0.3, 0.999]) {
    const experts = unequal();
    let asked = 0;
    for (let eviction = 1; eviction <= 1000; eviction++) {
      if (experts.choose(() => start) === LRU) asked++;
      const share = eviction * experts.lruWeight;
      assert.ok(Math.abs(asked - share) <= 1, `${asked} of ${eviction}, not ${share}`);
    }
  }
});

test('the start of the turns is by chance', () => {
  assert.equal(
    new Experts().choose(() => 0.4),
    LFU,
  );
  assert.equal(
    new Experts().choose(() => 0.6),
    LRU,
  );
});

test('regrets count alike whether they are taken over one by one or together', () => {
  const [one, together] = [new Experts(), new Experts()];
  for (let i = 0; i < 10; i++) one.learn(0.5, 0.25);
  together.learn(5, 2.5);
  assert.ok(Math.abs(one.lruWeight - together.lruWeight) < 1e-3);
});

test('the first regrets change weights most, and later ones still do', () => {
  const changes: number[] = [];
  const experts = new Experts();
  for (let round = 0; round < 50; round++) {
    const before = experts.lruWeight;
    experts.learn(10, 0);
    changes.push(logit(before) - logit(experts.lruWeight));
    experts.learn(0, 10);
  }
  assert.ok(changes[0] > 4 * changes[49], `${changes[0]} and ${changes[49]}`);
  assert.ok(changes[49] > 0.1, `${changes[49]}`);
});

/** In which a regret moves the weight as far wherever it is. */
function logit(weight: number): number {
  return Math.log(weight / (1 - weight));
}
