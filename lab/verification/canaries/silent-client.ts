import type { LocalPool } from '../../../src/pool/local-pool.ts';
import type { Canary } from '../canary.ts';

/** A lost epoch: others believe that the client is idle and re-use what it reads. */
export const silentClientCanary: Canary = {
  name: 'a client that does not announce its epochs',
  caughtBy: 'reclamation',
  pool: silence,
};

function silence(pool: LocalPool): void {
  pool.reclamation.quiesce = () => pool.allocator.begin(0, 0);
}
