import type { Command } from '../../command.ts';
import { KeyPages } from '../support/key-pages.ts';
import { parseRange } from '../support/key-range.ts';

export const swRemrange: Command = {
  name: 'sw.remrange',
  summary: 'Deletes the keys of a range, one by one, and returns how many. As ZREMRANGEBYLEX.',
  group: 'module',
  arity: 3,
  flags: ['write'],
  *run(request, { store, reply }) {
    const pages = new KeyPages(store, parseRange(request[1], request[2]));
    let removed = 0;
    while (!pages.done) removed += yield* store.deleteMany(yield* pages.next());
    reply.integer(removed);
  },
};
