import {
  type Address,
  Batch,
  type Operation,
  readInteger,
  Scratch,
  UNIT_BYTES,
} from '../../../src/verbs/index.ts';
import { WORD } from '../schedules/adversary.ts';

/**
 * Which clients have a call in flight, as words in the pool, so that the explorer sees which client
 * reads and changes them. Grace periods by epochs take hundreds of steps; these take a few. The
 * word of a client is odd while it has a call in flight.
 */
export class InFlight {
  readonly #at: Address;
  readonly #clients: number;
  readonly #isDead: (client: number) => boolean;

  /** `at`: lines that nothing else uses, one for each client. */
  constructor(at: Address, clients: number, isDead: (client: number) => boolean) {
    this.#at = at;
    this.#clients = clients;
    this.#isDead = isDead;
  }

  /** The call, with its begin and its end told to others. */
  *tell(client: number, call: Operation<void>): Operation<void> {
    yield* this.#count(client);
    yield* call;
    yield* this.#count(client);
  }

  *#count(client: number): Operation<void> {
    const words = new Scratch(2 * WORD);
    words.i64[0] = 1n;
    yield new Batch().faa(this.#wordOf(client), words, 0);
  }

  /** Waits until calls in flight of other clients have ended; false when one does not go on. */
  *outwait(own: number): Operation<boolean> {
    for (let client = 0; client < this.#clients; client++) {
      if (client !== own && !(yield* this.#outwaitOne(client))) return false;
    }
    return true;
  }

  *#outwaitOne(client: number): Operation<boolean> {
    const words = new Scratch(2 * WORD);
    const word = this.#wordOf(client);
    yield new Batch().read(word, WORD, words, 0);
    const before = readInteger(words, 0);
    if (before % 2 === 0) return true;
    yield new Batch().pause(1, words).read(word, WORD, words, 0);
    // Unchanged only when nobody could go on: the dead hold no address any more.
    return readInteger(words, 0) !== before || this.#isDead(client);
  }

  /** One line each: words that share a line would conflict for nothing. */
  #wordOf(client: number): Address {
    return this.#at + UNIT_BYTES * client;
  }
}
