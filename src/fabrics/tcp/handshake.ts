import { findNonce, WORK_BITS_MAX } from './node/guesses.ts';
import { NONCE_BYTES, PROOF_BYTES, proofOf, sameProof, type Transcript } from './secrets.ts';
import { WIRE_VERSION, WireError } from './wire.ts';

/** "SWTP": what a stranger that listens on the same port does not send. */
const MAGIC = 0x50_54_57_53;
const NAME_BYTES_MAX = 64;

/** Challenges of one connection: the first, and others as guesses go on meanwhile. */
export const CHALLENGES_MAX = 3;

interface Challenge {
  /** Another number each time a node starts. */
  boot: number;
  nonce: Uint8Array;
  needsSecret: boolean;
  /** Zero bits that the client's nonce has to bring about; see guesses.ts. */
  workBits: number;
}

export interface Proof {
  session: number;
  nonce: Uint8Array;
  proof: Uint8Array;
  name: string;
}

export interface Welcome {
  proof: Uint8Array;
  regions: number;
  regionBytes: number;
  frameBytesMax: number;
  /** The bytes of requests that the node lets one client have unanswered. */
  outstandingBytesMax: number;
  /** A client that is silent for so long is revoked. */
  leaseMs: number;
}

export function writeChallenge({ boot, nonce, needsSecret, workBits }: Challenge): Uint8Array {
  const bytes = new Uint8Array(24 + NONCE_BYTES);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, MAGIC, true);
  view.setUint32(4, WIRE_VERSION, true);
  view.setFloat64(8, boot, true);
  view.setUint32(16, needsSecret ? 1 : 0, true);
  view.setUint32(20, workBits, true);
  bytes.set(nonce, 24);
  return bytes;
}

export function readChallenge(bytes: Uint8Array): Challenge {
  const view = viewOf(bytes, 24 + NONCE_BYTES);
  if (view.getUint32(0, true) !== MAGIC) throw new WireError('no memory node answers there');
  const version = view.getUint32(4, true);
  if (version !== WIRE_VERSION) {
    throw new WireError(`the node speaks version ${version} of the wire, not ${WIRE_VERSION}`);
  }
  const workBits = view.getUint32(20, true);
  if (workBits > WORK_BITS_MAX) throw new WireError(`the node wants ${workBits} bits of work`);
  return {
    boot: view.getFloat64(8, true),
    workBits,
    needsSecret: view.getUint32(16, true) !== 0,
    nonce: bytes.slice(24, 24 + NONCE_BYTES),
  };
}

export function writeProof({ session, nonce, proof, name }: Proof): Uint8Array {
  const label = new TextEncoder().encode(name).subarray(0, NAME_BYTES_MAX);
  const bytes = new Uint8Array(16 + NONCE_BYTES + PROOF_BYTES + label.length);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, MAGIC, true);
  view.setUint32(4, WIRE_VERSION, true);
  view.setFloat64(8, session, true);
  bytes.set(nonce, 16);
  bytes.set(proof, 16 + NONCE_BYTES);
  bytes.set(label, 16 + NONCE_BYTES + PROOF_BYTES);
  return bytes;
}

export function readProof(bytes: Uint8Array): Proof {
  const fixed = 16 + NONCE_BYTES + PROOF_BYTES;
  const view = viewOf(bytes, fixed);
  if (view.getUint32(0, true) !== MAGIC) throw new WireError('no client of a memory node');
  const version = view.getUint32(4, true);
  if (version !== WIRE_VERSION) throw new WireError(`version ${version} of the wire`);
  const session = view.getFloat64(8, true);
  if (!Number.isSafeInteger(session) || session <= 0) throw new WireError('no session');
  return {
    session,
    nonce: bytes.slice(16, 16 + NONCE_BYTES),
    proof: bytes.slice(16 + NONCE_BYTES, fixed),
    name: new TextDecoder().decode(bytes.subarray(fixed)).replace(/\0+$/, ''),
  };
}

export function writeWelcome(welcome: Welcome): Uint8Array {
  const bytes = new Uint8Array(PROOF_BYTES + 24);
  const view = new DataView(bytes.buffer, PROOF_BYTES);
  bytes.set(welcome.proof);
  view.setFloat64(0, welcome.regionBytes, true);
  view.setUint32(8, welcome.regions, true);
  view.setUint32(12, welcome.frameBytesMax, true);
  view.setUint32(16, welcome.outstandingBytesMax, true);
  view.setUint32(20, welcome.leaseMs, true);
  return bytes;
}

function readWelcome(bytes: Uint8Array): Welcome {
  viewOf(bytes, PROOF_BYTES + 24);
  const view = new DataView(bytes.buffer, bytes.byteOffset + PROOF_BYTES);
  return {
    proof: bytes.slice(0, PROOF_BYTES),
    regionBytes: view.getFloat64(0, true),
    regions: view.getUint32(8, true),
    frameBytesMax: view.getUint32(12, true),
    outstandingBytesMax: view.getUint32(16, true),
    leaseMs: view.getUint32(20, true),
  };
}

function viewOf(bytes: Uint8Array, least: number): DataView {
  if (bytes.length < least) throw new WireError(`a handshake of ${bytes.length} bytes`);
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
}

/** The client's side of the handshake on one connection. */
export class Greeting {
  readonly #session: number;
  readonly #secret: Uint8Array;
  readonly #name: string;
  #challenges = 0;
  #transcript: Transcript | undefined;

  constructor(session: number, secret: Uint8Array = new Uint8Array(0), name = '') {
    this.#session = session;
    this.#secret = secret;
    this.#name = name;
  }

  /** A node asks again when meanwhile it wants more work with a proof. Raises WireError. */
  challenged(content: Uint8Array): Challenge {
    if (++this.#challenges > CHALLENGES_MAX) throw new WireError('one challenge after another');
    return readChallenge(content);
  }

  /** The content of a PROOF; undefined when none is wanted any more. */
  async prove(
    { boot, nonce: nodeNonce, workBits }: Challenge,
    isWanted: () => boolean,
  ): Promise<Uint8Array | undefined> {
    const nonce = await findNonce(nodeNonce, workBits, isWanted);
    if (nonce === undefined) return undefined;
    const session = this.#session;
    this.#transcript = { boot, session, nodeNonce, clientNonce: nonce };
    const proof = proofOf('client', this.#secret, this.#transcript);
    return writeProof({ session, nonce, proof, name: this.#name });
  }

  /** Raises WireError. Undefined when the node does not know the secret. */
  welcomed(content: Uint8Array): Welcome | undefined {
    if (this.#transcript === undefined) throw new WireError('a welcome before the challenge');
    const welcome = readWelcome(content);
    const expected = proofOf('node', this.#secret, this.#transcript);
    return sameProof(welcome.proof, expected) ? welcome : undefined;
  }
}
