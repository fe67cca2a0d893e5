import type { Canary } from '../canary.ts';

/** In random schedules only sweeps compare versions. */
const EXPIRING = { swarm: { expiries: 60, evictions: 0, compares: 0 } };

/** Another client may have replaced the record since a walk or a sample has met it. */
export const blindRemovalCanary: Canary = {
  name: 'a sweep or an eviction removes whatever record the key has then',
  caughtBy: 'linearizability',
  scenario: EXPIRING,
  index(index) {
    const { remove } = index;
    index.remove = (request) => remove.call(index, request);
    return index;
  },
};

export const timelessSearchCanary: Canary = {
  name: 'no client looks at the time of a record',
  caughtBy: 'linearizability',
  scenario: EXPIRING,
  index(index) {
    index.records.isExpired = () => false;
    return index;
  },
};
