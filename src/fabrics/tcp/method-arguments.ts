/** What the calls of node-methods.ts carry. */

/** ERASE carries these first bytes of a pool, which never change while the pool exists. */
export const HEAD_IMAGE_BYTES = 64;

/** IS_CONNECTED and REVOKE carry a session, and whether only its tag is known. */
export const SESSION_BYTES = 16;

/** The low bits of a session that stand in the state word of a client's row. */
const SESSION_TAG_BITS = 22;

export function sessionTag(session: number): number {
  return session % 2 ** SESSION_TAG_BITS;
}

export function writeSession(bytes: Uint8Array, session: number, tagOnly: boolean): void {
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  view.setFloat64(0, session, true);
  view.setUint32(8, tagOnly ? 1 : 0, true);
}

/** Raises RangeError. */
export function readSession(bytes: Uint8Array): { session: number; tagOnly: boolean } {
  if (bytes.length < SESSION_BYTES) throw new RangeError('no session');
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  return { session: view.getFloat64(0, true), tagOnly: view.getUint32(8, true) !== 0 };
}

/** LOCK, UNLOCK and IS_LOCKED carry a lock's number, below LOCKS_MAX. */
export const LOCK_BYTES = 8;
const LOCKS_MAX = 4096;

export function writeLock(bytes: Uint8Array, lock: number): void {
  new DataView(bytes.buffer, bytes.byteOffset).setFloat64(0, lock, true);
}

/** Raises RangeError. */
export function readLock(bytes: Uint8Array): number {
  if (bytes.length < LOCK_BYTES) throw new RangeError('no lock');
  const lock = new DataView(bytes.buffer, bytes.byteOffset).getFloat64(0, true);
  if (!Number.isInteger(lock) || lock < 0 || lock >= LOCKS_MAX) throw new RangeError('no lock');
  return lock;
}

/** Answers to PAGES, in the order of their numbers; all but the first say why not. */
export const PAGES_ANSWERS = ['huge', 'refused', 'none yet', 'small in the file'] as const;
export type PagesAnswer = (typeof PAGES_ANSWERS)[number];
