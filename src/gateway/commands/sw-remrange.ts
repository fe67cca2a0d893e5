import type { Command } from '../command.ts';
import { parseRange } from './support/key-range.ts';

/** Keys that are removed together. */
const BATCH = 256;

export const swRemrange: Command = {
  name: 'sw.remrange',
  summary: 'Deletes the keys of a range, one by one, and returns how many. As ZREMRANGEBYLEX.',
  group: 'module',
  arity: 3,
  flags: ['write'],
  run(request, { store, reply }) {
    const range = parseRange(request[1], request[2]);
    let removed = 0;
    let batch: (string | Uint8Array)[] = [];
    for (const key of range === undefined ? [] : store.keys(range)) {
      if (batch.push(key) < BATCH) continue;
      removed += store.deleteMany(batch);
      batch = [];
    }
    reply.integer(removed + store.deleteMany(batch));
  },
};
