import type { Command } from '../../command.ts';
import { keyPages } from '../support/key-pages.ts';
import { parseRange } from '../support/key-range.ts';

export const swRemrange: Command = {
  name: 'sw.remrange',
  summary: 'Deletes the keys of a range, one by one, and returns how many. As ZREMRANGEBYLEX.',
  group: 'module',
  arity: 3,
  flags: ['write'],
  run(request, { store, reply }) {
    const range = parseRange(request[1], request[2]);
    let removed = 0;
    if (range !== undefined) {
      for (const keys of keyPages(store, range)) removed += store.deleteMany(keys);
    }
    reply.integer(removed);
  },
};
