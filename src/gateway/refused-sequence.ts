import { type Command, ReplyError } from './command.ts';
import type { ConnectionState } from './connection-state.ts';

/** What ends a refused transaction, and what Redis refuses in any transaction with a text. */
const SERVED_IN_TRANSACTION: ReadonlySet<string> = new Set([
  'exec',
  'discard',
  'reset',
  'quit',
  'multi',
  'watch',
]);

/**
 * Refuses what assumes that a refused command held. MULTI: the commands of the transaction would
 * take effect one by one, and so would those that the client meant to discard. SELECT: a write (a
 * FLUSHDB) that was meant for another database would land in this one.
 */
export function refuseSuccessor(command: Command, state: ConnectionState): void {
  if (state.inRefusedTransaction && !SERVED_IN_TRANSACTION.has(command.name)) {
    throw new ReplyError(
      'ERR not run: MULTI was refused on this connection; EXEC, DISCARD or RESET ends that',
    );
  }
  if (state.inRefusedDatabase && reachesKeys(command)) {
    throw new ReplyError(
      'ERR not run: SELECT was refused on this connection; SELECT 0 or RESET ends that',
    );
  }
}

function reachesKeys({ flags }: Command): boolean {
  return flags.includes('readonly') || flags.includes('write');
}
