import type { Operation } from '../../../verbs/index.ts';
import type { CommandContext } from '../../command.ts';

/** What a subscription takes beside its name, about. */
const SUBSCRIPTION_BYTES = 128;

type Kind = 'channels' | 'patterns';

/** The two kinds of subscriptions, which differ in their names and where they are kept. */
const KINDS = {
  channels: { join: 'subscribe', leave: 'unsubscribe' },
  patterns: { join: 'psubscribe', leave: 'punsubscribe' },
} as const;

/** Subscribes, and tells of each channel how many subscriptions there are by now. */
export function* join(
  kind: Kind,
  names: readonly Buffer[],
  context: CommandContext,
): Operation<void> {
  const { state, server, client } = context;
  server.messages.openRing();
  for (const bytes of names) {
    const name = bytes.toString('latin1');
    if (!state[kind].has(name)) {
      state[kind].add(name);
      state.heldBytes += name.length + SUBSCRIPTION_BYTES;
      if (kind === 'channels') server.channels.subscribe(client, name);
      else server.channels.subscribePattern(client, name);
    }
    confirm(KINDS[kind].join, bytes, context);
  }
  yield* server.messages.update();
}

/** Ends subscriptions: those named, or all of this kind. */
export function* leave(
  kind: Kind,
  names: readonly Buffer[],
  context: CommandContext,
): Operation<void> {
  const { state, server } = context;
  const wanted =
    names.length > 0 ? names : [...state[kind]].map((name) => Buffer.from(name, 'latin1'));
  for (const bytes of wanted) {
    drop(kind, bytes.toString('latin1'), context);
    confirm(KINDS[kind].leave, bytes, context);
  }
  if (wanted.length === 0) confirm(KINDS[kind].leave, undefined, context);
  yield* server.messages.update();
}

/** Ends all subscriptions without a word. */
export function* leaveAll(context: CommandContext): Operation<void> {
  const { state, server } = context;
  for (const kind of ['channels', 'patterns'] as const) {
    for (const name of [...state[kind]]) drop(kind, name, context);
  }
  yield* server.messages.update();
}

function drop(kind: Kind, name: string, { state, server, client }: CommandContext): void {
  if (!state[kind].delete(name)) return;
  state.heldBytes -= name.length + SUBSCRIPTION_BYTES;
  if (kind === 'channels') server.channels.unsubscribe(client, name);
  else server.channels.unsubscribePattern(client, name);
}

function confirm(event: string, name: Buffer | undefined, context: CommandContext): void {
  const { reply, state } = context;
  reply.push(3);
  reply.bulk(event);
  reply.bulkOrNull(name);
  reply.integer(state.channels.size + state.patterns.size);
}
