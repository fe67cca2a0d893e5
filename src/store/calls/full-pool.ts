import { publish } from '../../diagnostics.ts';
import { StepwellError } from '../../errors.ts';
import type { Index } from '../../indexes/contract.ts';
import { sweep } from '../../indexes/sweep.ts';
import { FullForNow } from '../../pool/clients/reclamation.ts';
import type { Operation } from '../../verbs/index.ts';
import type { Attachment } from './attachment.ts';
import { ExpirySweep } from './expiry-sweep.ts';
import { VainSweeps, type WriteKind } from './vain-sweeps.ts';

/**
 * Some expired records first, all of them when that does not help: only a chunk that is empty has
 * room for blocks of another size. Two sweeps: the first may have been another client's, or have
 * brought what others took.
 */
const REMEDIES = ['reclaim', 'expire', 'sweep', 'expire all', 'sweep', 'sweep'] as const;

/**
 * How often a write waits for an epoch before other remedies. Of many in flight a few get on each
 * time, and each can be the last.
 */
const WAITS_MAX = 64;

/** Expired records whose memory does for a while. */
const ENOUGH = 512;

/** Over a network each write of many in flight would otherwise ask the nodes about all clients. */
const RECOVERY_INTERVAL_MS = 500;

/** What can be done about a full pool before its error is raised. */
export class FullPool {
  readonly #attachment: Attachment;
  readonly #index: Index;
  readonly #store: string;
  readonly #vain: VainSweeps;
  readonly #expired: ExpirySweep;
  #recoveredAt = Number.NEGATIVE_INFINITY;

  constructor(attachment: Attachment, index: Index, store: string) {
    this.#store = store;
    this.#attachment = attachment;
    this.#index = index;
    this.#vain = new VainSweeps(attachment.pool);
    this.#expired = new ExpirySweep(attachment, index);
  }

  /**
   * After a write has failed, and before it is run again: applies remedies from number `first` on
   * until one helps, and returns the number of the next one. Raises the error when it is another
   * one, or nothing helps.
   */
  *relieve(error: unknown, first: number, kind: WriteKind): Operation<number> {
    if (!(error instanceof StepwellError) || error.code !== 'SW_POOL_FULL') throw error;
    if (error instanceof FullForNow && first < WAITS_MAX && (yield* this.#wait(error))) {
      return first + 1;
    }
    for (let next = Math.max(first, WAITS_MAX); next < WAITS_MAX + REMEDIES.length; next++) {
      if (yield* this.#apply(REMEDIES[next - WAITS_MAX], kind)) return next + 1;
    }
    publish('full', () => ({ store: this.#store, write: kind }));
    throw error;
  }

  *#wait({ epoch }: FullForNow): Operation<boolean> {
    const { pool } = this.#attachment;
    // Another operation of this client has waited for it.
    if (pool.reclamation.announced >= epoch) return true;
    return (yield* this.#attachment.exclusive(() => pool.reaching(epoch))) ?? false;
  }

  *#apply(remedy: (typeof REMEDIES)[number], kind: WriteKind): Operation<boolean> {
    if (remedy === 'reclaim') return yield* this.#reclaim();
    if (remedy === 'sweep') return yield* this.#sweep(kind);
    const enough = remedy === 'expire' ? ENOUGH : Number.POSITIVE_INFINITY;
    const removed = yield* this.#expired.relieve(enough, () => this.#makeRoomToRemove());
    if (removed > 0) yield* this.#reclaim();
    return removed > 0;
  }

  *#makeRoomToRemove(): Operation<boolean> {
    return (yield* this.#reclaim()) || (yield* this.#sweep('deletion'));
  }

  *#reclaim(): Operation<boolean> {
    const { pool } = this.#attachment;
    return (yield* this.#attachment.exclusive(() => pool.reclaiming())) ?? false;
  }

  *#sweep(kind: WriteKind): Operation<boolean> {
    const { pool } = this.#attachment;
    yield* this.#recover();
    if (!(yield* this.#vain.mayBring(kind))) return false;
    const sweeping = () => sweep(pool, this.#index, kind === 'deletion');
    const brought = yield* this.#attachment.exclusive(sweeping);
    // Inside a callback nothing was swept, so nothing was in vain.
    if (brought === undefined) return false;
    publish('sweep', () => ({ store: this.#store, brought }));
    yield* this.#vain.note(kind, brought);
    return brought > 0;
  }

  /** Takes over from clients that are gone: what they have left may be enough. */
  *#recover(): Operation<void> {
    const now = performance.now();
    const { pool, width } = this.#attachment;
    if (width > 1 && now - this.#recoveredAt < RECOVERY_INTERVAL_MS) return;
    this.#recoveredAt = now;
    yield* this.#attachment.exclusive(() => pool.recovering(() => true));
  }
}
