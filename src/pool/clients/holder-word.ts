import { invariant } from '../../errors.ts';
import type { Address, Operation } from '../../verbs/index.ts';
import { control } from '../control.ts';
import { clientWord, isGone } from './client-word.ts';
import type { Membership } from './membership.ts';

/** Results of `take`. */
export const HELD = 0;
export const TAKEN = 1;
/** Taken from a holder that is gone, which may have left its work half done. */
export const INHERITED = 2;

/**
 * A word that names the one client that does some work (client-word.ts), or 0. The next client that
 * wants to do it replaces a holder that is gone.
 */
export class HolderWord {
  readonly #membership: Membership;
  readonly #address: Address;

  constructor(membership: Membership, address: Address) {
    this.#membership = membership;
    this.#address = address;
  }

  /** Names this client if the word names none, or one that is gone. */
  *take(): Operation<number> {
    invariant(this.#membership.id > 0, 'a client without a row cannot be named');
    const held = yield* control.load(this.#address);
    if (held !== 0n && !(yield* isGone(this.#membership, Number(held)))) return HELD;
    if (!(yield* control.swap(this.#address, held, this.#own()))) return HELD;
    return held === 0n ? TAKEN : INHERITED;
  }

  /**
   * Tries twice: if a verb failed and the word kept naming this living client, all others would
   * wait.
   */
  *leave(): Operation<void> {
    try {
      yield* control.swap(this.#address, this.#own(), 0n);
    } catch {
      yield* control.swap(this.#address, this.#own(), 0n);
    }
  }

  #own(): bigint {
    return BigInt(clientWord(this.#membership));
  }
}
