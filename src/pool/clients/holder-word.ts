import { invariant } from '../../errors.ts';
import type { Address, Operation } from '../../verbs/index.ts';
import { control, packFields, unpackFields } from '../control.ts';
import type { Membership } from './membership.ts';

/** Row and incarnation of a client. */
const FIELDS = [12, 16] as const;
const HELD_END = 2n ** 28n;

/** Results of `take`. */
export const HELD = 0;
export const TAKEN = 1;
/** Taken from a holder that is gone, which may have left its work half done. */
export const INHERITED = 2;

/**
 * A word that names the one client that does some work, or 0. The next client that wants to do it
 * replaces a holder that is gone.
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
    if (held !== 0n && !(yield* this.#holderIsGone(held))) return HELD;
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
    const { id, incarnation } = this.#membership;
    return packFields([id, incarnation].map((value, i) => [value, FIELDS[i]] as const));
  }

  *#holderIsGone(held: bigint): Operation<boolean> {
    const [id, incarnation] = unpackFields(held, FIELDS);
    invariant(held < HELD_END, `a word that names a client is ${held}`);
    const row = yield* this.#membership.rowNamed(id);
    if (!row.live || row.incarnation !== incarnation) return true;
    return yield* this.#membership.isGone(row);
  }
}
