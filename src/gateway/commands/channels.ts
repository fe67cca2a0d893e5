import { type Command, signature } from '../command.ts';
import { Glob } from '../glob.ts';
import type { SubscriptionKind } from '../messages/channels.ts';
import { container } from './support/container.ts';
import { join, leave } from './support/subscriptions.ts';

const inPubsub = (syntax: string) => signature(syntax, 'pubsub', 'loading', 'pubsub', 'stale');

export const subscribe = joining(
  'subscribe channel [channel ...]',
  'Sends messages of channels to this connection.',
  'channels',
);
export const psubscribe = joining(
  'psubscribe pattern [pattern ...]',
  'Sends messages of channels whose names match patterns.',
  'patterns',
);

function joining(syntax: string, summary: string, kind: SubscriptionKind): Command {
  return {
    ...inPubsub(syntax),
    summary,
    *run([, ...names], context) {
      yield* join(kind, names, context);
    },
  };
}

export const unsubscribe = leaving(
  'unsubscribe [channel ...]',
  'Ends subscriptions of channels, of all when none is named.',
  'channels',
);
export const punsubscribe = leaving(
  'punsubscribe [pattern ...]',
  'Ends subscriptions of patterns, of all when none is named.',
  'patterns',
);

function leaving(syntax: string, summary: string, kind: SubscriptionKind): Command {
  return {
    ...inPubsub(syntax),
    summary,
    *run([, ...names], context) {
      yield* leave(kind, names, context);
    },
  };
}

export const publish: Command = {
  ...signature('publish channel message', 'pubsub', 'fast', 'loading', 'pubsub', 'stale'),
  summary: 'Sends a message to the subscribers of all gateways; returns how many are of this one.',
  *run([, channel, message], { server, reply }) {
    // Copied, because subscribers get it after the request's memory is reused.
    const { messages } = server;
    reply.integer(yield* messages.publish(Buffer.from(channel), Buffer.from(message)));
  },
};

const channels: Command = {
  ...inPubsub('pubsub|channels [pattern]'),
  summary: 'Returns the channels with subscribers of this server, or those that match a pattern.',
  run(request, { server, reply }) {
    const glob = new Glob(request[2] ?? Buffer.from('*'));
    const names = [...server.channels.names()].map((name) => Buffer.from(name, 'latin1'));
    const found = names.filter((name) => glob.matches(name));
    reply.array(found.length);
    for (const name of found) reply.bulk(name);
  },
};

const numsub: Command = {
  ...inPubsub('pubsub|numsub [channel ...]'),
  summary: 'Returns how many clients of this server subscribe to each channel.',
  run([, , ...names], { server, reply }) {
    reply.array(names.length * 2);
    for (const name of names) {
      reply.bulk(name);
      reply.integer(server.channels.subscribersOf(name.toString('latin1')));
    }
  },
};

const numpat: Command = {
  ...inPubsub('pubsub|numpat'),
  summary: 'Returns how many patterns clients of this server subscribe to.',
  run(_request, { server, reply }) {
    reply.integer(server.channels.count('patterns'));
  },
};

export const pubsub = container({
  ...inPubsub('pubsub subcommand [argument ...]'),
  summary: 'Tells of channels and their subscribers.',
  subcommands: [channels, numpat, numsub],
});
