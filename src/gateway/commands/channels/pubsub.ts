import type { Command } from '../../command.ts';
import { Glob } from '../../glob.ts';
import { container } from '../support/container.ts';

const shared = { group: 'pubsub', flags: ['loading', 'pubsub', 'stale'] } as const;

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
