import type { Command } from '../command.ts';
import { clearStore } from './support/clear-store.ts';

export const flushall: Command = {
  name: 'flushall',
  summary: 'Deletes all keys; the same as FLUSHDB here.',
  group: 'server',
  arity: -1,
  flags: ['write'],
  run(request, context) {
    clearStore(request, context);
  },
};
