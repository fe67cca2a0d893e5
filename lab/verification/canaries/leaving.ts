import type { Index } from '../../../src/indexes/contract.ts';
import type { Canary } from '../canary.ts';

/** A bug that any index can have. */
function inEveryIndex(plant: (index: Index) => void): Partial<Canary> {
  const change = <I extends Index>(index: I): I => {
    plant(index);
    return index;
  };
  return {
    index: change,
    sephash: change,
    shard: change,
    chime: change,
    hopscotch: change,
    hstore: change,
  };
}

/** In random schedules only sweeps compare versions. */
const EXPIRING = { swarm: { expiries: 60, evictions: 0, compares: 0 } };

/** Another client may have replaced the record since a walk or a sample has met it. */
export const blindRemovalCanary: Canary = {
  name: 'a sweep or an eviction removes whatever record the key has then',
  caughtBy: 'linearizability',
  scenario: EXPIRING,
  ...inEveryIndex((index) => {
    const { remove } = index;
    index.remove = (request) => remove.call(index, request);
  }),
};

export const timelessSearchCanary: Canary = {
  name: 'no client looks at the time of a record',
  caughtBy: 'linearizability',
  scenario: EXPIRING,
  ...inEveryIndex(({ records }) => {
    records.isExpired = () => false;
  }),
};
