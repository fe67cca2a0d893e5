import type { Command } from '../command.ts';

export const unwatch: Command = {
  name: 'unwatch',
  summary: 'Does nothing: no key is ever watched.',
  group: 'transactions',
  arity: 1,
  flags: ['fast', 'loading', 'stale'],
  run(_request, { reply }) {
    reply.ok();
  },
};
