import { freshStore } from '../support/pools.ts';
import { someIndexes } from '../support/some-indexes.ts';
import { conformanceOn, POOL_BYTES } from './cases/local.ts';

/** What every store must do, by handles that keep decoded values. */
conformanceOn('memory', (index) => {
  if (index === 'sephash' || !someIndexes('race', 'chime').includes(index)) return undefined;
  const own = { size: POOL_BYTES, index, nearCache: 1000 };
  return {
    name: `${index} with a near cache:`,
    twins: ['sync'],
    open: (scope, options) => freshStore(scope, 'memory', { ...own, ...options }),
  };
});
