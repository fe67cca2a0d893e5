import { EPOCHS_TO_RIPEN } from '../../pool/clients/limbo.ts';
import { control } from '../../pool/control.ts';
import { SUPERBLOCK } from '../../pool/layout.ts';
import type { Pool } from '../../pool/pool.ts';
import type { Operation } from '../../verbs/index.ts';

const SWEEP_INTERVAL_MS = 1000;

/** What meets a full pool. A deletion may wait for other things than memory. */
export type WriteKind = 'deletion' | 'write';

/** A sweep that brought nothing, and what there was after it. */
interface VainSweep {
  at: number;
  freed: number;
  reusable: number;
  epoch: number;
  /** Sweeps in vain up to this one, of which each followed the one before within the interval. */
  inARow: number;
}

/**
 * Whether another sweep is worth its walk of the whole store after one in vain. Kept for each kind
 * of write: a sweep that brought a write no memory says nothing about a deletion, for which a sweep
 * makes room in the index; see `Index.compact`.
 */
export class VainSweeps {
  readonly #pool: Pool;
  readonly #last: { [kind in WriteKind]?: VainSweep } = {};

  constructor(pool: Pool) {
    this.#pool = pool;
  }

  /**
   * After an interval; sooner when this client has freed something, when chunks were left, or when
   * other clients have retired blocks, which the epoch shows: it moves on with every hundred or so.
   * Vain sweeps move it too, so clients that all find the pool full would sweep in turns with each
   * write. Therefore each vain sweep doubles what the next one waits for.
   */
  *mayBring(kind: WriteKind): Operation<boolean> {
    const vain = this.#last[kind];
    if (vain === undefined || Date.now() - vain.at >= SWEEP_INTERVAL_MS) return true;
    const { freed, reusable, epoch } = yield* this.#look();
    if (freed !== vain.freed || reusable !== vain.reusable) return true;
    return epoch - vain.epoch >= EPOCHS_TO_RIPEN * 2 ** vain.inARow;
  }

  /** Notes how many blocks and chunks a sweep has brought back. */
  *note(kind: WriteKind, brought: number): Operation<void> {
    const before = this.#last[kind];
    this.#last[kind] = undefined;
    if (brought > 0) return;
    const at = Date.now();
    const follows = before !== undefined && at - before.at < SWEEP_INTERVAL_MS;
    const inARow = follows ? before.inARow + 1 : 1;
    this.#last[kind] = { at, inARow, ...(yield* this.#look()) };
  }

  *#look(): Operation<Pick<VainSweep, 'freed' | 'reusable' | 'epoch'>> {
    const { freed } = this.#pool.allocator;
    const reusable = Number(yield* control.load(SUPERBLOCK.chunkNews));
    return { freed, reusable, epoch: Number(yield* control.load(SUPERBLOCK.epoch)) };
  }
}
