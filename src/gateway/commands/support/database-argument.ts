import { parseInteger, ReplyError } from '../../arguments.ts';
import type { CommandContext } from '../../command.ts';

/** The number of a database. */
export function parseDatabase(argument: Buffer, { server }: CommandContext): number {
  const index = parseInteger(argument);
  if (index >= 0n && index < BigInt(server.databases.count)) return Number(index);
  throw new ReplyError('ERR DB index is out of range');
}
