import type { Command } from '../../command.ts';
import { join, leave } from '../support/subscriptions.ts';

const shared = { group: 'pubsub', flags: ['loading', 'pubsub', 'stale'] } as const;

export const subscribe: Command = {
  ...shared,
  name: 'subscribe',
  summary: 'Has messages of channels sent to this connection.',
  arity: -2,
  *run([, ...names], context) {
    yield* join('channels', names, context);
  },
};

export const psubscribe: Command = {
  ...shared,
  name: 'psubscribe',
  summary: 'Has messages of channels sent whose names match patterns.',
  arity: -2,
  *run([, ...names], context) {
    yield* join('patterns', names, context);
  },
};

export const unsubscribe: Command = {
  ...shared,
  name: 'unsubscribe',
  summary: 'Ends subscriptions of channels, of all when none is named.',
  arity: -1,
  *run([, ...names], context) {
    yield* leave('channels', names, context);
  },
};

export const punsubscribe: Command = {
  ...shared,
  name: 'punsubscribe',
  summary: 'Ends subscriptions of patterns, of all when none is named.',
  arity: -1,
  *run([, ...names], context) {
    yield* leave('patterns', names, context);
  },
};
