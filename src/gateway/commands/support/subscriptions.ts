import type { Operation } from '../../../verbs/index.ts';
import type { CommandContext } from '../../command.ts';
import type { SubscriptionKind } from '../../messages/channels.ts';

/** About how much memory a subscription takes, besides its name. */
const SUBSCRIPTION_BYTES = 128;

/** The commands by which a client subscribes and unsubscribes. */
const EVENTS = {
  channels: { join: 'subscribe', leave: 'unsubscribe' },
  patterns: { join: 'psubscribe', leave: 'punsubscribe' },
} as const;

/** Subscribes, and confirms each name with the number of the client's subscriptions. */
export function* join(
  kind: SubscriptionKind,
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
      server.channels.subscribe(kind, client, name);
    }
    confirm(EVENTS[kind].join, bytes, context);
  }
  yield* server.messages.update();
}

/** Ends the named subscriptions, or all of this kind. */
export function* leave(
  kind: SubscriptionKind,
  names: readonly Buffer[],
  context: CommandContext,
): Operation<void> {
  const { state, server } = context;
  const wanted =
    names.length > 0 ? names : [...state[kind]].map((name) => Buffer.from(name, 'latin1'));
  for (const bytes of wanted) {
    drop(kind, bytes.toString('latin1'), context);
    confirm(EVENTS[kind].leave, bytes, context);
  }
  if (wanted.length === 0) confirm(EVENTS[kind].leave, undefined, context);
  yield* server.messages.update();
}

/** Ends all subscriptions without confirming. */
export function* leaveAll(context: CommandContext): Operation<void> {
  const { state, server } = context;
  for (const kind of ['channels', 'patterns'] as const) {
    for (const name of [...state[kind]]) drop(kind, name, context);
  }
  yield* server.messages.update();
}

function drop(
  kind: SubscriptionKind,
  name: string,
  { state, server, client }: CommandContext,
): void {
  if (!state[kind].delete(name)) return;
  state.heldBytes -= name.length + SUBSCRIPTION_BYTES;
  server.channels.unsubscribe(kind, client, name);
}

function confirm(event: string, name: Buffer | undefined, context: CommandContext): void {
  const { reply, state } = context;
  reply.push(3);
  reply.bulk(event);
  reply.bulkOrNull(name);
  reply.integer(state.channels.size + state.patterns.size);
}
