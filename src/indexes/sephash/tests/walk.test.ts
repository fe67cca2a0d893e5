import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ByHand, requestFor, sepHashByHand } from '../../../store/tests/support/by-hand.ts';
import { ALWAYS } from '../../contract.ts';
import type { Request } from '../../substrates/request.ts';
import { walkOf } from '../../traversal/walk.ts';
import type { SepHashIndex } from '../sephash.ts';

type Client = ByHand<SepHashIndex>;

/** 16 entries; a MainSegment of more than 128 is split. */
const SHAPE = { segmentBytes: 128, ratio: 8, initialDepth: 0, maxDepth: 8 };

function put({ pool, index }: Client, key: string): void {
  pool.run(index.write(requestFor({ index }, key, ''), ALWAYS));
}

function keyOf({ outgoing }: Request, keyBytes: number): string {
  return outgoing.buffer.toString('latin1', 16, 16 + keyBytes);
}

for (const resumes of [false, true]) {
  for (const splits of [1, 5]) {
    const how = resumes ? 'goes on at its cursor' : 'goes on';
    test(`a walk whose segment is split ${splits} times in between ${how} and misses nothing`, (t) => {
      const walker = sepHashByHand(t, { sephash: SHAPE });
      const writer = sepHashByHand(t, { sephash: SHAPE, handle: walker.handle });
      const keys = Array.from({ length: 100 }, (_, i) => `k${i}`);
      for (const key of keys) put(writer, key);
      const seen = new Map<string, number>();
      let walk = walkOf(walker.index);
      const step = () => {
        const visit = (request: Request, keyBytes: number) => {
          const key = keyOf(request, keyBytes);
          seen.set(key, (seen.get(key) ?? 0) + 1);
        };
        walker.pool.run(walk.next(visit));
        if (resumes && !walk.done) walk = walkOf(walker.index, walk.cursor);
      };
      step();
      step();
      assert.ok(seen.size > 0 && seen.size < keys.length);
      for (let i = 0; writer.index.table.splits < splits; i++) put(writer, `more ${i}`);
      while (!walk.done) step();
      for (const key of keys) {
        const times = seen.get(key) ?? 0;
        assert.ok(times === 1 || (resumes && times > 1), `${key} is met ${times} times`);
      }
    });
  }
}
