import type { Condition, Outcome } from '../../../src/indexes/contract.ts';
import type { SepHashRequest } from '../../../src/indexes/sephash/request.ts';
import { SEPHASH, SepHashIndex } from '../../../src/indexes/sephash/sephash.ts';
import { Batch, type Operation, Scratch } from '../../../src/verbs/index.ts';
import type { Canary } from '../canary.ts';

export const sepHashLateMarkCanary: Canary = {
  name: 'a SepHash write that returns before its mark is set',
  caughtBy: 'linearizability',
  kind: SEPHASH,
  index: ({ table }: SepHashIndex) => new LateMark(table),
};

/** As published: the filter's WRITE comes when the write has returned, here with the next one. */
class LateMark extends SepHashIndex {
  readonly #late = new Batch();

  override *write(request: SepHashRequest, condition: Condition, expected = 0): Operation<Outcome> {
    if (this.#late.length > 0) {
      const late = new Batch().append(this.#late);
      this.#late.clear();
      yield late;
    }
    const writing = super.write(request, condition, expected);
    for (let step = writing.next(); ; step = writing.next()) {
      if (step.done) return step.value;
      putOff(step.value, request.mark, this.#late);
      yield step.value;
    }
  }
}

/** Moves the WRITE to this address, if there is one, to another batch. */
function putOff(batch: Batch, address: number, late: Batch): void {
  const row = batch.address.subarray(0, batch.length).indexOf(address);
  if (address === 0 || row < 0) return;
  const words = new Scratch(8);
  const at = batch.offset[row];
  words.u8.set(batch.scratch[row].u8.subarray(at, at + 8));
  late.write(address, 8, words, 0);
  for (const column of ['kind', 'address', 'bytes', 'offset'] as const) {
    batch[column].copyWithin(row, row + 1, batch.length);
  }
  batch.scratch.splice(row, 1);
  batch.length--;
}
