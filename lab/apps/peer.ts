/** A typical value of an application's cache: about a hundred bytes of JSON. */
export interface Article {
  id: number;
  title: string;
  tags: string[];
}

export function articleOf(id: number): Article {
  return { id, title: `Article ${id} of an application`, tags: ['news', 'local', 'weather'] };
}

/** A cache of objects. Synchronous caches return values, others promises. */
export interface CachePeer {
  readonly name: string;
  /** Divides the operations of a run, for peers whose operations are round trips. */
  readonly slower: number;
  get(key: string): unknown;
  set(key: string, value: Article): unknown;
  /** The caches of two workers: separate, or shared if the peer can share. */
  readonly workers: readonly [GetOrLoad, GetOrLoad];
}

export type GetOrLoad = (key: string, load: () => Promise<Article>) => Promise<unknown>;

/** A limit that is never reached. */
export interface LimiterPeer {
  readonly name: string;
  readonly slower: number;
  take(key: string): unknown;
}
