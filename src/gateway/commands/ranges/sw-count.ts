import type { Command } from '../../command.ts';
import { parseRange } from '../support/key-range.ts';

export const swCount: Command = {
  name: 'sw.count',
  summary: 'Counts the keys of a range; needs a store on an ordered index. As ZLEXCOUNT.',
  group: 'module',
  arity: 3,
  flags: ['readonly'],
  *run(request, { store, reply }) {
    const range = parseRange(request[1], request[2]);
    reply.integer(range === undefined ? 0 : yield* store.count(range));
  },
};
