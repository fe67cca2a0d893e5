import { type Command, ReplyError } from '../command.ts';

export const auth: Command = {
  name: 'auth',
  summary: 'Refused: there is no authentication.',
  group: 'connection',
  arity: -2,
  flags: ['fast', 'loading', 'stale'],
  run() {
    // The text of a Redis without a password: clients know it, and go on without one.
    throw new ReplyError(
      'ERR AUTH <password> called without any password configured for the default user. ' +
        'Are you sure your configuration is correct?',
    );
  },
};
