import type { Command } from '../../command.ts';
import { removeKeys } from '../support/remove-keys.ts';

export const del: Command = {
  name: 'del',
  summary: 'Deletes keys and returns how many existed.',
  group: 'generic',
  arity: -2,
  flags: ['write'],
  keys: [1, -1, 1],
  *run(request, context) {
    yield* removeKeys(request, context);
  },
};

export const unlink: Command = {
  ...del,
  name: 'unlink',
  summary: 'Deletes keys and returns how many existed; the same as DEL here.',
  flags: ['write', 'fast'],
};
