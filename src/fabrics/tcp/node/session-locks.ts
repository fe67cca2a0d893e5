import { type FileLocks, LOCK_HELD, LOCK_NEEDLESS, LOCK_TAKEN } from '../../shared/file-locks.ts';

/**
 * Locks of the memory's file that a node has for its sessions. They end with the session, after its
 * last verb, or with the node, which executes no verb then either. All of them belong to one open
 * file description, so the node itself keeps its sessions apart.
 */
export class SessionLocks {
  readonly #locks: FileLocks | undefined;
  /** By lock. */
  readonly #holders = new Map<number, number>();

  /** Without a file no client but the node's can reach the memory, and nobody looks at locks. */
  constructor(locks: FileLocks | undefined) {
    this.#locks = locks;
  }

  take(session: number, lock: number): number {
    if (this.#locks === undefined) return LOCK_NEEDLESS;
    const holder = this.#holders.get(lock);
    if (holder !== undefined) return holder === session ? LOCK_TAKEN : LOCK_HELD;
    const outcome = this.#locks.take(lock);
    if (outcome === LOCK_TAKEN) this.#holders.set(lock, session);
    return outcome;
  }

  /** Whether the session has a lock beside this one. */
  hasOther(session: number, lock: number): boolean {
    for (const [held, holder] of this.#holders) {
      if (holder === session && held !== lock) return true;
    }
    return false;
  }

  release(session: number, lock: number): void {
    if (this.#holders.get(lock) !== session) return;
    this.#holders.delete(lock);
    this.#locks?.release(lock);
  }

  /** True when this node cannot tell. */
  isTaken(lock: number): boolean {
    return this.#locks?.isTaken(lock) ?? true;
  }

  /** Call when no verb of the session will be executed any more. */
  end(session: number): void {
    for (const [lock, holder] of this.#holders) if (holder === session) this.release(session, lock);
  }
}
