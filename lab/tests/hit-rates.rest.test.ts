import assert from 'node:assert/strict';
import { test } from 'node:test';
import { measure, tracesOf } from '../hit-rates/run.ts';

const SETTINGS = { keys: 500, requests: 10_000, clients: 1, near: 0, seed: 16 };
/** What sampling may cost, in points. */
const POINTS = 3;
/** And learning, on a trace that shifts. */
const POINTS_OF_ADAPTIVE = 2;
/** Percent of the keys that there is room for. `hit-rates` measures all indexes and rooms. */
const ROOMS: Readonly<Record<string, readonly number[]>> = {
  race: [10],
};

for (const [index, rooms] of Object.entries(ROOMS)) {
  test(`${index}: hit rates are those of caches that know all`, () => {
    for (const trace of tracesOf(SETTINGS)) {
      for (const room of rooms) {
        const { exactLru, exactLfu, lruPackage, stores } = measure(trace, room, [index], SETTINGS);
        const [{ lru, lfu, adaptive }] = stores;
        const title = `${trace.name}, room for ${room} %: ${JSON.stringify({ lru, lfu, adaptive })}`;
        assert.equal(lruPackage, exactLru);
        assert.ok(lru > exactLru - POINTS, `${title}, exact LRU ${exactLru}`);
        assert.ok(lfu > exactLfu - POINTS, `${title}, exact LFU ${exactLfu}`);
        const better = Math.max(exactLru, exactLfu);
        const isShifting = trace.name === 'shifting';
        if (isShifting) assert.ok(adaptive > better - POINTS_OF_ADAPTIVE, `${title}, ${better}`);
      }
    }
  });
}
