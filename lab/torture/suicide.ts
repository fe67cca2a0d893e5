import { SharedFabric } from '../../src/fabrics/shared/shared-fabric.ts';
import { type Batch, CAS } from '../../src/verbs/index.ts';
import type { Prng } from '../workloads/index.ts';

/** A doorbell with at least this many CAS is a mover's, which freezes or transfers slots. */
const MOVER_SWAPS = 3;
const MOVER_SHARE = 8;

/**
 * From now on this process may kill itself at any doorbell, after some of its verbs: at points that
 * a kill from outside rarely hits.
 */
export function dieBetweenVerbs(random: Prng, every: number): void {
  const { execute } = SharedFabric.prototype;
  const isLast = (batch: Batch) => {
    const share = swapsIn(batch) >= MOVER_SWAPS ? Math.ceil(every / MOVER_SHARE) : every;
    return random.below(share) === 0;
  };
  const die = (fabric: SharedFabric, batch: Batch) => {
    batch.length = random.below(batch.length + 1);
    execute.call(fabric, batch);
    process.kill(process.pid, 'SIGKILL');
  };
  SharedFabric.prototype.execute = function (this: SharedFabric, batch) {
    if (isLast(batch)) die(this, batch);
    execute.call(this, batch);
  };
}

function swapsIn(batch: Batch): number {
  let swaps = 0;
  for (let row = 0; row < batch.length; row++) if (batch.kind[row] === CAS) swaps++;
  return swaps;
}
