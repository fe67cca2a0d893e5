import type { Pair } from '../../indexes/hstore/pair.ts';
import { control } from '../../pool/control.ts';
import type { Canary } from '../canary.ts';

/** A bug in HStore, planted in one client's view of every pair. */
function canary(name: string, plant: (pair: Pair) => void): Canary {
  return {
    name: `HStore: ${name}`,
    caughtBy: 'linearizability',
    scenario: { swarm: { walks: 30 } },
    hstore: (index) => {
      index.table.pairs.forEach(plant);
      return index;
    },
  };
}

export const HSTORE_CANARIES: readonly Canary[] = [
  canary('a client that waits takes the lease of a server that lives', ({ hashLease }) => {
    hashLease.take = ({ word }) => control.swap(hashLease.address, word, BigInt(hashLease.own));
  }),
  canary('a skiplist is scanned as it is', ({ skiplistServer }) => {
    const { catchUp } = skiplistServer;
    skiplistServer.catchUp = function* () {
      if (this.applied < 0) yield* catchUp.call(this);
    };
  }),
  canary('a scan does not see what a GET has seen before', ({ skiplistServer }) => {
    skiplistServer.settled = function* () {
      return (yield* this.log.progress()).committed;
    };
  }),
  canary('a scan sees what a GET does not see yet', ({ skiplistServer }) => {
    skiplistServer.settled = function* () {
      return (yield* this.log.progress()).begun;
    };
  }),
];
