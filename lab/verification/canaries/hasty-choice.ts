import { CHIME, type ChimeIndex } from '../../../src/indexes/chime/chime.ts';
import type { LeafRequest } from '../../../src/indexes/substrates/leaf/leaf-request.ts';
import type { Chooses } from '../../../src/indexes/substrates/leaf/remove-items.ts';
import { HEADER_BYTES } from '../../../src/records/layout.ts';
import type { Canary } from '../canary.ts';

export const hastyChoiceCanary: Canary = {
  name: 'CHIME: the records of a leaf that go together are chosen before it is locked',
  caughtBy: 'linearizability',
  kind: CHIME,
  index: (index: ChimeIndex) => {
    const { removeBeside, sample } = index;
    index.removeBeside = function* (own: LeafRequest, met: LeafRequest, chooses: Chooses) {
      const chosen = new Set<string>();
      yield* sample.call(index, met, own, Number.POSITIVE_INFINITY, (one, keyBytes) => {
        if (chooses(one, keyBytes)) chosen.add(keyIn(one, keyBytes));
      });
      const wasChosen: Chooses = (one, keyBytes) => chosen.has(keyIn(one, keyBytes));
      return yield* removeBeside.call(index, own, met, wasChosen);
    };
    return index;
  },
};

function keyIn({ outgoing }: LeafRequest, keyBytes: number): string {
  return Buffer.from(outgoing.u8.subarray(HEADER_BYTES, HEADER_BYTES + keyBytes)).toString();
}
