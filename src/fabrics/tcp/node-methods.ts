/** Calls that every memory node answers. Those of index servers begin at FIRST_FREE_METHOD. */
export const INITIALISE = 1;
/** Whether any client of this session, or whose session has these low bits, is connected. */
export const IS_CONNECTED = 2;
/** Ends the session: when this is answered, no verb of it will be executed any more. */
export const REVOKE = 3;
/**
 * Erases the memory if it begins with the given bytes. The node first revokes all other clients,
 * and admits none until it is done. If the memory is blank, it only revokes the clients.
 */
export const ERASE = 4;
/**
 * LOCK takes a lock of the memory's file for the session, until UNLOCK or the session's end.
 * IS_LOCKED tells whether any client has it, also one that maps the file (shared/file-locks.ts).
 */
export const LOCK = 5;
export const UNLOCK = 6;
export const IS_LOCKED = 7;
/** Returns what a session needs to bypass this connection; for nodes with a `DataPath`. */
export const ATTACH = 8;
/** Whether the memory is on huge pages, as one of PAGES_ANSWERS; also for those nodes. */
export const PAGES = 9;
/** Waits until a word has changed, or for a while, and then READs (node/awaits.ts). */
export const AWAIT_CHANGE = 10;
export const FIRST_FREE_METHOD = 256;
