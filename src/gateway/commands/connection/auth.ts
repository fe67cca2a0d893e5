import { ReplyError, SYNTAX_ERROR } from '../../arguments.ts';
import type { Command } from '../../command.ts';
import { authenticate } from '../support/authenticate.ts';

const DEFAULT_USER = Buffer.from('default');

export const auth: Command = {
  name: 'auth',
  summary: 'Tells a password, or a user and a password.',
  group: 'connection',
  arity: -2,
  flags: ['fast', 'loading', 'no_auth', 'stale'],
  run([, ...words], context) {
    if (words.length > 2) throw new ReplyError(SYNTAX_ERROR);
    if (words.length === 1 && context.server.passwords === undefined) {
      throw new ReplyError(
        'ERR AUTH <password> called without any password configured for the default user. ' +
          'Are you sure your configuration is correct?',
      );
    }
    const [user, password] = words.length === 1 ? [DEFAULT_USER, words[0]] : words;
    authenticate(user, password, context);
    context.reply.ok();
  },
};
