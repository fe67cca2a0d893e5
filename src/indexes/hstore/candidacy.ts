/** Whether this process may be the primary of a role, as it knows at this moment. */
export interface Candidacy {
  /**
   * The fencing token of its election: greater than that of any primary before. Undefined as long
   * as it is not elected, and from the moment on from which another one may be.
   */
  readonly token: number | undefined;
}

/**
 * Who says which process is the primary of a role (the paper leaves this to a ZooKeeper). Whatever
 * it says, a lease in the pool is taken only with a token that is no less than the last one, and
 * from a holder only when that can issue verbs no more: two processes that both believe to be the
 * primary, one of them late, are never both the server.
 */
export interface Coordinator {
  /** Stands for election to the role `name`, which is unique among all stores. */
  stand(name: string): Candidacy;
  /** Gives up what it is elected to. */
  close(): Promise<void>;
}

/**
 * The default: no service. Everybody may be the primary, and the lease alone decides, by its CAS
 * and the pool's membership. It needs no token, because a lease that nobody is elected to is free,
 * or its holder is gone.
 */
export class PoolCoordinator implements Coordinator {
  stand(): Candidacy {
    return { token: 0 };
  }

  async close(): Promise<void> {}
}
