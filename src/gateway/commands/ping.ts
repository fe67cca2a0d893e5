import { type Command, wrongNumberOfArguments } from '../command.ts';

export const ping: Command = {
  name: 'ping',
  summary: 'Returns PONG, or its argument.',
  group: 'connection',
  arity: -1,
  flags: ['fast'],
  run(request, { reply }) {
    if (request.length > 2) throw wrongNumberOfArguments('ping');
    if (request.length === 2) reply.bulk(request[1]);
    else reply.pong();
  },
};
