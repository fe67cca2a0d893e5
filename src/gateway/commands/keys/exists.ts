import type { Command } from '../../command.ts';

export const exists: Command = {
  name: 'exists',
  summary: 'Returns how many of the keys exist; a key named twice counts twice.',
  group: 'generic',
  arity: -2,
  flags: ['readonly', 'fast'],
  keys: [1, -1, 1],
  *run(request, { store, reply }) {
    let count = 0;
    for (let at = 1; at < request.length; at++) if (yield* store.has(request[at])) count++;
    reply.integer(count);
  },
};

export const touch: Command = {
  ...exists,
  name: 'touch',
  summary: 'Reads keys, which begins the time of sliding ones anew; returns how many exist.',
};
