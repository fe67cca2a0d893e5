import { CERTAIN, certainty, gatherLive, postBuckets } from '../../../src/indexes/race/buckets.ts';
import { fingerprintOf } from '../../../src/indexes/race/geometry.ts';
import { catchUp } from '../../../src/indexes/race/migrate.ts';
import { RACE, RaceIndex } from '../../../src/indexes/race/race.ts';
import type { RaceRequest } from '../../../src/indexes/race/request.ts';
import type { RaceTable } from '../../../src/indexes/race/table.ts';
import {
  matchCandidate,
  postCandidates,
} from '../../../src/indexes/substrates/claims/slot-candidates.ts';
import type { LocalPool } from '../../../src/pool/local-pool.ts';
import { type Address, type Operation, Scratch } from '../../../src/verbs/index.ts';
import type { Canary } from '../canary.ts';

/**
 * An ignored fence: a search that says in the doorbell of its last READs, behind them, that the
 * client holds no address any more. Each search announces its epoch again before it reads. In the
 * order of posting that is right, but nothing orders a WRITE behind an earlier READ of its doorbell
 * (`verbs/batch.ts`): it may overtake, and the block that is read is re-used.
 */
export const earlyGoodbyeCanary: Canary = {
  name: 'a WRITE that relies on being ordered behind the READs of its doorbell',
  caughtBy: 'reclamation',
  scenario: { crashes: false, swarm: { lanes: 1, chains: 0 } },
  consequencesOnly: true,
  kind: RACE,
  index: ({ table }: RaceIndex, pool) => new EarlyGoodbye(table, pool),
};

class EarlyGoodbye extends RaceIndex {
  readonly #epochWord: Address;
  /** The epoch that the client had announced, and the 0 that means it holds nothing. */
  readonly #words = new Scratch(16);

  constructor(table: RaceTable, { membership }: LocalPool) {
    super(table);
    this.#epochWord = membership.epochWord;
  }

  override *search(request: RaceRequest): Operation<boolean> {
    const { table } = this;
    const { batch } = request;
    request.fingerprint = fingerprintOf(request.hash.h1);
    yield batch.clear().read(this.#epochWord, 8, this.#words, 0);
    for (let attempt = 1; ; attempt++) {
      yield batch.clear().write(this.#epochWord, 8, this.#words, 0);
      yield postBuckets(table, request, batch.clear());
      if (gatherLive(table, request) > 0) {
        postCandidates(request, batch.clear());
        yield batch.write(this.#epochWord, 8, this.#words, 8);
        if (matchCandidate(request)) break;
        yield batch.clear().write(this.#epochWord, 8, this.#words, 0);
      }
      if (certainty(table, request) === CERTAIN) return false;
      yield* catchUp(table, request, attempt);
    }
    yield batch.clear().write(this.#epochWord, 8, this.#words, 0);
    return true;
  }
}
