/** Calls that every memory node answers. Those of index servers begin at FIRST_FREE_METHOD. */
export const INITIALISE = 1;
/** Whether any client of this session, or whose session has these low bits, is connected. */
export const IS_CONNECTED = 2;
/** Ends the session: when this is answered, no verb of it will be executed any more. */
export const REVOKE = 3;
/**
 * Makes the memory blank, if it begins with the bytes given: all other clients are revoked first,
 * and no client is let in until it is done. Of a blank memory the clients are revoked alone.
 */
export const ERASE = 4;
/**
 * Takes a lock of the memory's file for the session, which has it until it releases it or ends;
 * releases it; and whether any client has it, also one that maps the file (shared/file-locks.ts).
 */
export const LOCK = 5;
export const UNLOCK = 6;
export const IS_LOCKED = 7;
/** What the session needs to reach the memory without this connection; of nodes that have such. */
export const ATTACH = 8;
/** Whether the memory stands on huge pages, as one of PAGES_ANSWERS; of such nodes, too. */
export const PAGES = 9;
export const FIRST_FREE_METHOD = 256;
