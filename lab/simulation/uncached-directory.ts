import type { Condition, Outcome } from '../../src/indexes/contract.ts';
import type { RaceIndex } from '../../src/indexes/race/race.ts';
import type { RaceRequest } from '../../src/indexes/race/request.ts';
import { suffixOf } from '../../src/indexes/substrates/directory.ts';
import type { RecordIo } from '../../src/indexes/substrates/record-io.ts';
import type { Operation } from '../../src/verbs/index.ts';
import type { TimedIndex } from './index-kind.ts';

const ENTRY_BYTES = 8;

/**
 * A test double of RACE without the client's directory cache: each operation first reads its
 * directory entry, one more round trip. It ignores the entry and uses the cache, which is correct.
 */
export class UncachedRace implements TimedIndex {
  readonly #race: RaceIndex;

  constructor(race: RaceIndex) {
    this.#race = race;
  }

  get records(): RecordIo {
    return this.#race.records;
  }

  newRequest(): RaceRequest {
    return this.#race.newRequest();
  }

  *search(request: RaceRequest): Operation<boolean> {
    yield this.#readEntry(request);
    return yield* this.#race.search(request);
  }

  *write(request: RaceRequest, condition: Condition, expected?: number): Operation<Outcome> {
    yield this.#readEntry(request);
    return yield* this.#race.write(request, condition, expected);
  }

  *remove(request: RaceRequest): Operation<boolean> {
    yield this.#readEntry(request);
    return yield* this.#race.remove(request);
  }

  #readEntry({ batch, words, hash }: RaceRequest) {
    const { directory } = this.#race.table;
    const suffix = suffixOf(hash.h1, directory.depth);
    return batch.clear().read(directory.parts.entry(suffix), ENTRY_BYTES, words, 0);
  }
}
