import { CALL, CAS, CAS_BYTES, FAA, READ, WRITE } from '../../verbs/index.ts';

/**
 * The wire between a client and a memory node: frames of whole 8-byte words, little-endian, so that
 * both ends copy by words. See README.md for the layout of each frame.
 *
 *   word 0, low half    type 0-3 | length in words 4-31, the head included
 *   word 0, high half   sequence number of what is asked; the answer repeats it
 */
export const WIRE_VERSION = 3;
export const HEAD_BYTES = 8;

/** Node to client: its nonce, whether it has a secret, and the work it wants with the proof. */
export const CHALLENGE = 1;
/** Client to node: its identity, and the proof. */
export const PROOF = 2;
/** Node to client: the node's proof, its memory and its limits. */
export const WELCOME = 3;
/** Client to node: the verbs of one doorbell batch, or of a part of it. */
export const BATCH = 4;
/** Node to client: what the verbs of a batch return, one behind another. */
export const RESULTS = 5;
/** Client to node: a two-sided call. Its answer may overtake answers to what came after it. */
export const CALL_FRAME = 6;
export const RETURN = 7;
/** Node to client: why a batch or a call failed, or with NO_SEQUENCE why the connection ends. */
export const FAILURE = 8;
/** Client to node, and the node answers in kind: the other end is there. */
export const HEARTBEAT = 9;

export const NO_SEQUENCE = -1;

/** Frames before the handshake is done are short. */
export const HANDSHAKE_BYTES_MAX = 1024;
/** The longest frame that a node takes and sends, unless it says otherwise. */
export const FRAME_BYTES_MAX = 1024 * 1024;
/** A node has to take frames of so many bytes: calls are not cut up, and one carries 4 KiB. */
export const FRAME_BYTES_MIN = 8 * 1024;
/** Head of the call AWAIT: microseconds, and the word as it was. */
export const AWAIT_HEAD_BYTES = 16;
/** Bytes of the READs of such a call, and of their results: any node's frames have room. */
export const AWAITED_BYTES_MAX = 4096;
/** Verbs or results of one frame: enough for the wire, little enough to take turns. */
const FRAME_BUDGET = 256 * 1024;
/** A verb that is longer is sent as several: its length has 19 bits. */
const VERB_BYTES_MAX = 256 * 1024;
/** Regions of one node have 10 bits in a verb; the last number names none. */
export const NODE_REGIONS_MAX = 1023;

const LENGTH_SHIFT = 4;
const REGION_SHIFT = 3;
const BYTES_SHIFT = 13;

export function headWord(type: number, bytes: number): number {
  return type | ((bytes / 8) << LENGTH_SHIFT);
}

export function typeOf(head: number): number {
  return head & 0xf;
}

export function frameBytes(head: number): number {
  return (head >>> LENGTH_SHIFT) * 8;
}

/**
 * The first half-word of a verb; the second is the offset in the region. A region that no node has,
 * of a damaged word, stays one that the node refuses.
 */
export function verbWord(kind: number, region: number, bytes: number): number {
  const place = region < NODE_REGIONS_MAX ? region : NODE_REGIONS_MAX;
  return kind | (place << REGION_SHIFT) | (bytes << BYTES_SHIFT);
}

export function verbKind(word: number): number {
  return word & 7;
}

export function verbRegion(word: number): number {
  return (word >>> REGION_SHIFT) & 0x3ff;
}

export function verbBytes(word: number): number {
  return word >>> BYTES_SHIFT;
}

export function padded(bytes: number): number {
  return (bytes + 7) & ~7;
}

/** Bytes that follow the word of a verb in a BATCH: the local words that the verb reads. */
export function requestBytes(kind: number, bytes: number): number {
  switch (kind) {
    case READ:
      return 0;
    case WRITE:
      return padded(bytes);
    case CAS:
      return CAS_BYTES - 8;
    case FAA:
      return 8;
    default:
      return -1;
  }
}

/** Bytes of a verb in RESULTS. */
export function resultBytes(kind: number, bytes: number): number {
  if (kind === READ) return padded(bytes);
  return kind === WRITE || kind === CALL ? 0 : 8;
}

/** How a client cuts up what it sends to a node. */
export interface FrameShape {
  /** Which of how many nodes it is. */
  node: number;
  nodes: number;
  /** Bytes of verbs, and of results, in one frame. */
  budget: number;
  /** Bytes of one verb; a multiple of 64. */
  verbBytesMax: number;
}

/** For a node that takes frames of `frameBytesMax`, their heads included. */
export function shapeFor(node: number, nodes: number, frameBytesMax: number): FrameShape {
  const budget = Math.min(FRAME_BUDGET, Math.floor((frameBytesMax - HEAD_BYTES) / 8) * 8);
  // A WRITE stands in its frame with a word of its own.
  const verbBytesMax = Math.min(VERB_BYTES_MAX, Math.floor((frameBytesMax - 16) / 64) * 64);
  return { node, nodes, budget, verbBytesMax };
}

/** What broke a rule of the wire: the connection ends. */
export class WireError extends Error {
  override readonly name = 'WireError';
}

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
