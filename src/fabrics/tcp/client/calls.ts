import { WireError } from '../wire.ts';

/** Method and length of a call, or of its reply, in front of the bytes. */
export const CALL_HEAD = 8;

/** What a CALL frame carries; of a RETURN, the method is 0. */
export function callContent(method: number, bytes: Uint8Array): Uint8Array {
  const content = new Uint8Array(CALL_HEAD + bytes.length);
  const view = new DataView(content.buffer);
  view.setInt32(0, method, true);
  view.setInt32(4, bytes.length, true);
  content.set(bytes, CALL_HEAD);
  return content;
}

/** The reverse; frames are padded, so there may be more behind. Raises WireError. */
export function readCall(content: Uint8Array): { method: number; bytes: Uint8Array } {
  if (content.length < CALL_HEAD) throw new WireError('a call without a method');
  const view = new DataView(content.buffer, content.byteOffset);
  const method = view.getInt32(0, true);
  const length = view.getInt32(4, true);
  if (length < 0 || length > content.length - CALL_HEAD) throw new WireError('a call cut short');
  return { method, bytes: content.subarray(CALL_HEAD, CALL_HEAD + length) };
}

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
 * Takes a lock of the memory's file for the session, which has it until it lets go of it or ends;
 * lets go of it; and whether any client has it, also one that maps the file (shared/file-locks.ts).
 */
export const LOCK = 5;
export const UNLOCK = 6;
export const IS_LOCKED = 7;
/** What the session needs to reach the memory without this connection; of nodes that have such. */
export const ATTACH = 8;
/** A lock's number, of so many. */
export const LOCK_BYTES = 8;
export const LOCKS_MAX = 4096;

/** As many bytes of a pool's beginning never change as long as it is there. */
export const HEAD_IMAGE_BYTES = 64;
export const FIRST_FREE_METHOD = 256;

/** The low bits of a session that stand in the state word of a client's row. */
export const SESSION_TAG_BITS = 22;

export function sessionTag(session: number): number {
  return session % 2 ** SESSION_TAG_BITS;
}

/** A session, and whether only its tag is known. */
export function writeSession(bytes: Uint8Array, session: number, tagOnly: boolean): void {
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  view.setFloat64(0, session, true);
  view.setUint32(8, tagOnly ? 1 : 0, true);
}

export const SESSION_BYTES = 16;

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

export function readSession(bytes: Uint8Array): { session: number; tagOnly: boolean } {
  if (bytes.length < SESSION_BYTES) throw new RangeError('no session');
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  return { session: view.getFloat64(0, true), tagOnly: view.getUint32(8, true) !== 0 };
}
