import type { Condition, Outcome } from '../../../src/indexes/contract.ts';
import { chooseSlot } from '../../../src/indexes/race/buckets.ts';
import { fingerprintOf } from '../../../src/indexes/race/geometry.ts';
import { RACE, RaceIndex } from '../../../src/indexes/race/race.ts';
import type { RaceRequest } from '../../../src/indexes/race/request.ts';
import { locate } from '../../../src/indexes/race/search.ts';
import { split } from '../../../src/indexes/race/split.ts';
import { control } from '../../../src/pool/control.ts';
import type { Operation } from '../../../src/verbs/index.ts';
import type { Canary } from '../canary.ts';

/**
 * The lock of the published split (RACE, section 3.4.2). A client that dies with it blocks every
 * client that needs a split of the subtable, for ever.
 */
export const splitLockCanary: Canary = {
  name: 'a split under a lock that a dead client keeps',
  caughtBy: 'liveness',
  kind: RACE,
  index: ({ table }: RaceIndex) => new LockedSplit(table),
};

/** A word of the subtable's header that nothing else uses. */
const LOCK = 24;

class LockedSplit extends RaceIndex {
  override *write(request: RaceRequest, condition: Condition, expected = 0): Operation<Outcome> {
    const { table } = this;
    request.fingerprint = fingerprintOf(request.hash.h1);
    if (!(yield* locate(table, request)) && chooseSlot(table, request) === 0) {
      const lock = request.subtable + LOCK;
      while (!(yield* control.swap(lock, 0n, 1n))) yield* control.pause(1);
      yield* split(table, request);
      yield* control.store(lock, 0n);
    }
    return yield* super.write(request, condition, expected);
  }
}
