import {
  CHALLENGES_MAX,
  type Challenge,
  readChallenge,
  readWelcome,
  type Welcome,
  writeProof,
} from './handshake.ts';
import { findNonce } from './node/guesses.ts';
import { proofOf, sameProof, type Transcript } from './secrets.ts';
import { WireError } from './wire.ts';

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

  /** What the node says of itself; undefined when it does not know the secret. Raises WireError. */
  welcomed(content: Uint8Array): Welcome | undefined {
    if (this.#transcript === undefined) throw new WireError('a welcome before the challenge');
    const welcome = readWelcome(content);
    const expected = proofOf('node', this.#secret, this.#transcript);
    return sameProof(welcome.proof, expected) ? welcome : undefined;
  }
}
