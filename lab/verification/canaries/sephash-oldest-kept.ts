import { Merger } from '../../../src/indexes/sephash/merging/merge.ts';
import type { SepHashRequest } from '../../../src/indexes/sephash/request.ts';
import { SEPHASH, type SepHashIndex } from '../../../src/indexes/sephash/sephash.ts';
import type { SepHashTable } from '../../../src/indexes/sephash/table.ts';
import type { Operation } from '../../../src/verbs/index.ts';
import type { Canary } from '../canary.ts';

export const sepHashOldestKeptCanary: Canary = {
  name: 'a SepHash merge that keeps the oldest record of the CurSegment',
  // A dropped tombstone retires its record, but this record stays: a merge retires it once more.
  caughtBy: 'reclamation',
  kind: SEPHASH,
  index: mergeBackwards,
};

function mergeBackwards(index: SepHashIndex): SepHashIndex {
  const { table } = index;
  table.idleMergers.pop = () => new Backwards(table);
  return index;
}

/** As an unstable sort by fingerprint does to entries of one key: their order is lost. */
class Backwards extends Merger {
  readonly #slots: number;

  constructor(table: SepHashTable) {
    super(table);
    this.#slots = table.geometry.slots;
  }

  override *run(request: SepHashRequest, spare = 0): Operation<void> {
    const merging = super.run(request, spare);
    const first = merging.next();
    if (first.done) return;
    // The first doorbell begins with the READ of the CurSegment.
    yield first.value;
    const entries = first.value.scratch[0].i64.subarray(0, this.#slots);
    entries.reverse();
    yield* merging;
  }
}
