import type { KeyPage } from '../../../store/api.ts';
import type { Operation } from '../../../verbs/index.ts';
import type { Command, CommandContext } from '../../command.ts';
import type { GatewayStore } from '../../gateway-store.ts';

/** Keys that are looked at together, and pages that are passed over at most. */
const PAGE_KEYS = 16;
const PAGES_MAX = 8;

export const randomkey: Command = {
  name: 'randomkey',
  summary: 'Returns some key, or null when there is none.',
  group: 'generic',
  arity: 1,
  flags: ['readonly'],
  *run(_request, context) {
    context.reply.bulkOrNull(yield* randomKey(context));
  },
};

/** A walk through the store that goes on with each call, some random pages further. */
function* randomKey({ store, server, state }: CommandContext): Operation<Uint8Array | undefined> {
  const database = server.databases.get(state.database);
  let pages = Math.floor(Math.random() * PAGES_MAX);
  let found: readonly Uint8Array[] = [];
  let wraps = 0;
  while (wraps < 2 && (pages-- > 0 || found.length === 0)) {
    const page = yield* pageAt(store, database.randomCursor);
    database.randomCursor = page.cursor;
    if (page.keys.length > 0) found = page.keys;
    if (page.cursor === 0) wraps++;
  }
  return found[Math.floor(Math.random() * found.length)];
}

/** A cursor may be none any more when the store has changed. */
function* pageAt(store: GatewayStore, cursor: number): Operation<KeyPage> {
  try {
    return yield* store.scanKeys(cursor, PAGE_KEYS);
  } catch (error) {
    if (cursor === 0) throw error;
    return yield* store.scanKeys(0, PAGE_KEYS);
  }
}
