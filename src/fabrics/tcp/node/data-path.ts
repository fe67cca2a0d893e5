import type { PagesAnswer } from '../method-arguments.ts';

/**
 * How the verbs of a node's clients reach its memory, when not by their connections to it. Those
 * stay what lets a client in, revokes it, and answers its calls.
 */
export interface DataPath {
  /** Returns what an admitted session must know to reach the memory. */
  attach(session: number): Promise<Uint8Array>;
  /** When this is answered, no verb of the session will be executed any more. */
  end(session: number): Promise<void>;
  /** Whether the memory stands on huge pages, and why not. */
  pages(): PagesAnswer;
  /** Ends all of them. */
  close(): Promise<void>;
}
