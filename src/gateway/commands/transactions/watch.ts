import { checkKey } from '../../../records/codec.ts';
import { ReplyError } from '../../arguments.ts';
import type { Command } from '../../command.ts';

export const watch: Command = {
  name: 'watch',
  summary: 'Has EXEC run nothing if one of the keys has changed by then.',
  group: 'transactions',
  arity: -2,
  flags: ['fast', 'loading', 'stale'],
  keys: [1, -1, 1],
  *run(request, { state, store, reply }) {
    if (state.transaction !== undefined) {
      throw new ReplyError('ERR WATCH inside MULTI is not allowed');
    }
    const { database } = state;
    const keys = request.slice(1);
    for (const key of keys) checkKey(key);
    for (const key of keys) {
      // The first version counts.
      if (state.watches(database, key)) continue;
      state.watch(database, key, (yield* store.metadata(key))?.version);
    }
    reply.ok();
  },
};

export const unwatch: Command = {
  name: 'unwatch',
  summary: 'Forgets the keys that WATCH has named.',
  group: 'transactions',
  arity: 1,
  flags: ['fast', 'loading', 'stale'],
  run(_request, { state, reply }) {
    state.unwatch();
    reply.ok();
  },
};
