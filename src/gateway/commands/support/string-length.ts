import { ReplyError } from '../../arguments.ts';
import type { CommandContext } from '../../command.ts';
import { requestLimits } from '../../protocol/request-reader.ts';

/** Raises the error of Redis for a value that would be longer than one can be set. */
export function checkLength(bytes: number, { server }: CommandContext): void {
  if (bytes <= requestLimits(server.limits.requestBytesMax).bulkBytesMax) return;
  throw new ReplyError('ERR string exceeds maximum allowed size (proto-max-bulk-len)');
}
