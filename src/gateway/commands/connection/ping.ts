import { wrongNumberOfArguments } from '../../arguments.ts';
import type { Command } from '../../command.ts';

export const ping: Command = {
  name: 'ping',
  summary: 'Returns PONG, or its argument.',
  group: 'connection',
  arity: -1,
  flags: ['fast'],
  run(request, { reply, state }) {
    if (request.length > 2) throw wrongNumberOfArguments('ping');
    if (state.isSubscriber && reply.protocol === 2) {
      // A client that subscribes takes everything for a message.
      reply.array(2);
      reply.bulk('pong');
      reply.bulk(request[1] ?? '');
    } else if (request.length === 2) reply.bulk(request[1]);
    else reply.pong();
  },
};
