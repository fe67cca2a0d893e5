import { rounds } from '../../../random/tests/support/rounds.ts';
import { freshStore, type PoolKind } from '../support/pools.ts';
import { someIndexes } from '../support/some-indexes.ts';
import { conformanceOn, POOL_BYTES } from './cases/local.ts';

/** The others are the same fabric at other places, so only a campaign has them. */
const KINDS: readonly PoolKind[] = rounds(1, 3) === 1 ? ['memory'] : ['memory', 'shm', 'file'];
const INDEXES = someIndexes('race', 'chime');

/** What every store must do, by handles that keep decoded values. */
for (const kind of KINDS) {
  conformanceOn(kind, (index) => {
    if (index === 'sephash' || !INDEXES.includes(index)) return undefined;
    const own = { size: POOL_BYTES, index, nearCache: 1000 };
    return {
      name: `${index} on ${kind} with a near cache:`,
      twins: ['sync'],
      bounded: kind === 'memory' || index === 'race',
      open: (scope, options) => freshStore(scope, kind, { ...own, ...options }),
    };
  });
}
