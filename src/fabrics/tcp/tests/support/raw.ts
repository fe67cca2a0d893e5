import { once } from 'node:events';
import type { Socket } from 'node:net';
import { CAS, FAA, READ, WRITE } from '../../../../verbs/index.ts';
import { readChallenge, writeProof } from '../../handshake.ts';
import { proofOf } from '../../secrets.ts';
import {
  frameBytes,
  HEAD_BYTES,
  headWord,
  PROOF,
  padded,
  requestBytes,
  verbWord,
} from '../../wire.ts';

export const CHALLENGE_FRAME_BYTES = 64;

/** A frame as bytes, put together without the product's encoder. */
export function frameOf(type: number, sequence: number, content: Uint8Array): Buffer {
  const bytes = Buffer.alloc(HEAD_BYTES + padded(content.length));
  bytes.writeUInt32LE(headWord(type, bytes.length), 0);
  bytes.writeInt32LE(sequence, 4);
  bytes.set(content, HEAD_BYTES);
  return bytes;
}

export interface RawVerb {
  kind: number;
  region: number;
  offset: number;
  bytes: number;
  fill: number;
}

export function verbsOf(verbs: readonly RawVerb[]): Buffer {
  return Buffer.concat(
    verbs.map(({ kind, region, offset, bytes, fill }) => {
      const room = Math.max(0, requestBytes(kind, bytes));
      const verb = Buffer.alloc(8 + room, fill);
      verb.writeUInt32LE(verbWord(kind, region, bytes) >>> 0, 0);
      verb.writeUInt32LE(offset, 4);
      return verb;
    }),
  );
}

export const KINDS = [READ, WRITE, CAS, FAA];

/** Reads from a raw connection until so many bytes are there, or it ends. */
export async function receive(socket: Socket, bytes: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let length = 0;
  while (length < bytes) {
    const chunk = socket.read(Math.min(bytes - length, socket.readableLength)) as Buffer | null;
    if (chunk !== null) {
      chunks.push(chunk);
      length += chunk.length;
    } else if (socket.readableEnded || socket.destroyed) {
      break;
    } else {
      await Promise.race(['readable', 'end', 'close'].map((event) => once(socket, event)));
    }
  }
  return Buffer.concat(chunks);
}

/** Waits until so many bytes are there to be received. */
export async function arrived(socket: Socket, bytes: number): Promise<void> {
  while (socket.readableLength < bytes) {
    // What has no reader is not read from the network: this asks for it, and takes nothing.
    socket.read(0);
    await once(socket, 'readable');
  }
}

/** Does the handshake of a client without a secret; returns the node's answer. */
export async function greet(socket: Socket, session: number, secret = ''): Promise<Buffer> {
  const challenge = readChallenge(
    (await receive(socket, CHALLENGE_FRAME_BYTES)).subarray(HEAD_BYTES),
  );
  const nonce = new Uint8Array(32).fill(session);
  const transcript = {
    boot: challenge.boot,
    session,
    nodeNonce: challenge.nonce,
    clientNonce: nonce,
  };
  const proof = proofOf('client', Buffer.from(secret), transcript);
  socket.write(frameOf(PROOF, 0, writeProof({ session, nonce, proof, name: 'raw' })));
  const head = await receive(socket, HEAD_BYTES);
  return receive(socket, frameBytes(head.readUInt32LE(0)) - HEAD_BYTES);
}
