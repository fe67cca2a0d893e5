import { invariant } from '../../errors.ts';
import type { Address, Operation } from '../../verbs/index.ts';
import { control, packFields, unpackFields } from '../control.ts';
import type { Membership } from './membership.ts';

/** Row and incarnation of a client. */
const FIELDS = [12, 16] as const;
const HELD_END = 2n ** 28n;

/** What became of an attempt to be named. */
export const HELD = 0;
export const TAKEN = 1;
/** From a holder that is gone, which may have left its work half done. */
export const INHERITED = 2;

/**
 * A word that names the client that does something, or 0. A holder that is gone is replaced
 * by the client that finds that out.
 */
export class HolderWord {
  readonly #membership: Membership;
  readonly #address: Address;

  constructor(membership: Membership, address: Address) {
    this.#membership = membership;
    this.#address = address;
  }

  /** Puts this client's name where none is, or that of a client that is gone. */
  *take(): Operation<number> {
    invariant(this.#membership.id > 0, 'a client without a row cannot be named');
    const held = yield* control.load(this.#address);
    if (held !== 0n && !(yield* this.#holderIsGone(held))) return HELD;
    if (!(yield* control.swap(this.#address, held, this.#own()))) return HELD;
    return held === 0n ? TAKEN : INHERITED;
  }

  /**
   * Tried twice: a word that still names a client which is alive, because a verb failed, would keep
   * all others waiting.
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
