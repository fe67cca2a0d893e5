import { type CommandContext, keyword, ReplyError, SYNTAX_ERROR } from '../../command.ts';
import type { Request } from '../../request-reader.ts';

/** FLUSHDB and FLUSHALL. ASYNC is taken as a permission: the keys are gone when the reply comes. */
export function clearStore(request: Request, { store, reply }: CommandContext): void {
  const mode = request.length === 1 ? 'SYNC' : keyword(request[1]);
  if (request.length > 2 || (mode !== 'SYNC' && mode !== 'ASYNC')) {
    throw new ReplyError(SYNTAX_ERROR);
  }
  store.clear();
  reply.ok();
}
