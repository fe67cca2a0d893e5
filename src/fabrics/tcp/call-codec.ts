import { WireError } from './wire.ts';

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
