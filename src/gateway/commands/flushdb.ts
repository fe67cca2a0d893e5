import type { Command } from '../command.ts';
import { clearStore } from './support/clear-store.ts';

export const flushdb: Command = {
  name: 'flushdb',
  summary: 'Deletes all keys of the database.',
  group: 'server',
  arity: -1,
  flags: ['write'],
  run(request, context) {
    clearStore(request, context);
  },
};
