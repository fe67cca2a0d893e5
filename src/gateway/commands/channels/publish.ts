import type { Command } from '../../command.ts';

export const publish: Command = {
  name: 'publish',
  summary: 'Sends a message to the subscribers of all gateways; returns how many are of this one.',
  group: 'pubsub',
  arity: 3,
  flags: ['fast', 'loading', 'pubsub', 'stale'],
  *run([, channel, message], { server, reply }) {
    // Subscribers get it later than this request is in memory.
    const { messages } = server;
    reply.integer(yield* messages.publish(Buffer.from(channel), Buffer.from(message)));
  },
};
