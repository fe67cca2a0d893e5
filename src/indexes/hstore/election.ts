/** Whether a process may be the primary of a role, as it knows at this moment. */
export interface Candidacy {
  /**
   * The fencing token of its election, 0..TOKEN_MAX: greater than that of any earlier primary.
   * Undefined until it is elected, and from the moment at which another process may be elected.
   */
  readonly token: number | undefined;
}

export const TOKEN_MAX = 2 ** 34 - 1;

/**
 * Elects the primary of each role. The pool's leases do not rely on it: a server takes a lease only
 * with a token no less than the last one, and from a holder only if that can issue no more verbs.
 * So two processes that both believe that they are the primary are never both the server.
 */
export interface Coordinator {
  /** Stands for election to the role `name`, which is unique among all stores. */
  stand(name: string): Candidacy;
  /** Resigns from all roles. */
  close(): Promise<void>;
}
