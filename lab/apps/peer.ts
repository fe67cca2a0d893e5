/** A value of about a hundred bytes of JSON, as a cache of an application has. */
export interface Article {
  id: number;
  title: string;
  tags: string[];
}

export function articleOf(id: number): Article {
  return { id, title: `Article ${id} of an application`, tags: ['news', 'local', 'weather'] };
}

/** A cache of objects. What it does at once it returns at once. */
export interface CachePeer {
  readonly name: string;
  /** How many times fewer operations a run has, where each is a round trip. */
  readonly slower: number;
  get(key: string): unknown;
  set(key: string, value: Article): unknown;
  /** Two caches, as two workers have them, that share what they share. */
  readonly workers: readonly [GetOrLoad, GetOrLoad];
}

export type GetOrLoad = (key: string, load: () => Promise<Article>) => Promise<unknown>;

/** A limit that is never reached. */
export interface LimiterPeer {
  readonly name: string;
  readonly slower: number;
  take(key: string): unknown;
}
