import { type Command, wrongNumberOfArguments } from '../command.ts';

export const mset: Command = {
  name: 'mset',
  summary: 'Sets several keys. Each is set atomically, not all together.',
  group: 'string',
  arity: -3,
  flags: ['write', 'denyoom'],
  keys: [1, -1, 2],
  run(request, { store, reply }) {
    if (request.length % 2 === 0) throw wrongNumberOfArguments('mset');
    const entries: [Buffer, Buffer][] = [];
    for (let at = 1; at < request.length; at += 2) entries.push([request[at], request[at + 1]]);
    store.setMany(entries);
    reply.ok();
  },
};
