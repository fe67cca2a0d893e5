import type { LocalPool } from '../../../src/pool/local-pool.ts';
import type { Canary } from '../canary.ts';

/** As the paper does it: a block is given back when it is unlinked. */
export const earlyReuseCanary: Canary = {
  name: 'blocks are re-used as soon as they are unlinked',
  caughtBy: 'reclamation',
  pool: reuseAtOnce,
};

function reuseAtOnce(pool: LocalPool): void {
  pool.reclamation.retire = (address, units, catalog) => {
    pool.allocator.free(address, units, catalog);
  };
}
