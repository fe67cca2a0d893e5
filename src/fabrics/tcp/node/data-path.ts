import type { PagesAnswer } from '../method-arguments.ts';

/**
 * How the verbs of a node's clients reach its memory, if not through their connections. The
 * connections still admit and revoke clients, and answer their calls.
 */
export interface DataPath {
  /** Returns what an admitted session must know to reach the memory. */
  attach(session: number): Promise<Uint8Array>;
  /** After this resolves, no verb of the session is executed. */
  end(session: number): Promise<void>;
  /** Whether the memory uses huge pages, and if not, why. */
  pages(): PagesAnswer;
  close(): Promise<void>;
}
