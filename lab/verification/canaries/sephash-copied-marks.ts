import { MAIN_HEADER_BYTES } from '../../../src/indexes/sephash/segments/main-segment.ts';
import { SEPHASH, SepHashIndex } from '../../../src/indexes/sephash/sephash.ts';
import type { Operation } from '../../../src/verbs/index.ts';
import type { Canary } from '../canary.ts';

/** An append that has read the metadata of the spare place marks that place only. */
export const sepHashCopiedMarksCanary: Canary = {
  name: 'a SepHash compaction that copies the marks home as it has read them',
  caughtBy: 'linearizability',
  scenario: { swarm: { crowded: true, chunks: 6, insists: true, startup: 'prepared' } },
  kind: SEPHASH,
  index: ({ table }: SepHashIndex) => new CopiedMarks(table),
};

class CopiedMarks extends SepHashIndex {
  override *compact(grace: () => Operation<boolean>, forDeletion: boolean): Operation<number> {
    const { spare } = this.table.directory.parts;
    const compacting = super.compact(grace, forDeletion);
    for (let step = compacting.next(); ; step = compacting.next()) {
      if (step.done) return step.value;
      const batch = step.value;
      yield batch;
      if (batch.length !== 1 || batch.address[0] !== spare) continue;
      const image = batch.scratch[0];
      const entries = image.u8.slice(MAIN_HEADER_BYTES);
      const copying = compacting.next();
      if (copying.done) return copying.value;
      if (copying.value.scratch[0] === image) image.u8.set(entries, MAIN_HEADER_BYTES);
      yield copying.value;
    }
  }
}
