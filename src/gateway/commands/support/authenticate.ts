import { ReplyError } from '../../arguments.ts';
import type { CommandContext } from '../../command.ts';

/** Lets the client in, or raises the error of Redis. */
export function authenticate(user: Buffer, password: Buffer, context: CommandContext): void {
  const { passwords } = context.server;
  const name = user.toString('utf8', 0, 1024);
  // Without passwords there is only the user `default`, which needs none.
  const isAllowed = passwords === undefined ? name === 'default' : passwords.allows(name, password);
  if (!isAllowed) {
    throw new ReplyError('WRONGPASS invalid username-password pair or user is disabled.');
  }
  context.allow(name);
}
