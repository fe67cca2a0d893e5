import type { Command } from '../command.ts';
import { Glob } from '../glob.ts';
import { container } from './support/container.ts';
import { join, leave } from './support/subscriptions.ts';

const shared = { group: 'pubsub', flags: ['loading', 'pubsub', 'stale'] } as const;

export const subscribe: Command = {
  ...shared,
  name: 'subscribe',
  summary: 'Has messages of channels sent to this connection.',
  arity: -2,
  *run([, ...names], context) {
    yield* join('channels', names, context);
  },
};

export const psubscribe: Command = {
  ...shared,
  name: 'psubscribe',
  summary: 'Has messages of channels sent whose names match patterns.',
  arity: -2,
  *run([, ...names], context) {
    yield* join('patterns', names, context);
  },
};

export const unsubscribe: Command = {
  ...shared,
  name: 'unsubscribe',
  summary: 'Ends subscriptions of channels, of all when none is named.',
  arity: -1,
  *run([, ...names], context) {
    yield* leave('channels', names, context);
  },
};

export const punsubscribe: Command = {
  ...shared,
  name: 'punsubscribe',
  summary: 'Ends subscriptions of patterns, of all when none is named.',
  arity: -1,
  *run([, ...names], context) {
    yield* leave('patterns', names, context);
  },
};

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

const channels: Command = {
  ...shared,
  name: 'pubsub|channels',
  summary: 'Returns the channels with subscribers of this server, or those that match a pattern.',
  arity: -2,
  run(request, { server, reply }) {
    const glob = new Glob(request[2] ?? Buffer.from('*'));
    const names = [...server.channels.names()].map((name) => Buffer.from(name, 'latin1'));
    const found = names.filter((name) => glob.matches(name));
    reply.array(found.length);
    for (const name of found) reply.bulk(name);
  },
};

const numsub: Command = {
  ...shared,
  name: 'pubsub|numsub',
  summary: 'Returns how many clients of this server subscribe to each channel.',
  arity: -2,
  run([, , ...names], { server, reply }) {
    reply.array(names.length * 2);
    for (const name of names) {
      reply.bulk(name);
      reply.integer(server.channels.subscribersOf(name.toString('latin1')));
    }
  },
};

const numpat: Command = {
  ...shared,
  name: 'pubsub|numpat',
  summary: 'Returns how many patterns clients of this server subscribe to.',
  arity: 2,
  run(_request, { server, reply }) {
    reply.integer(server.channels.patternCount);
  },
};

export const pubsub = container({
  ...shared,
  name: 'pubsub',
  summary: 'Tells of channels and their subscribers.',
  arity: -2,
  subcommands: [channels, numpat, numsub],
});
