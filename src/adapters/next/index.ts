import type { AnyStore } from '../../helpers/host.ts';
import { checkOptions } from '../../store/arguments.ts';
import { type AdapterValues, spaceOf } from '../space.ts';

export type { AdapterValues };

/** Where Next.js writes the tags of a page. */
const TAGS_HEADER = 'x-next-cache-tags';
/** How long it is known that a tag was revalidated: no entry of Next.js is served for longer. */
const YEAR_MS = 365 * 86_400_000;

/** Options of `nextCacheHandler`. */
export interface NextCacheOptions {
  /** In front of each key: one for each build, since a new build must not read an old one's. */
  prefix?: string;
  /** How long entries live to which Next.js gives no end. Default: that of the store. */
  ttlMs?: number;
  /** How entries are stored; they hold Buffers and Maps. Default `v8`. */
  values?: AdapterValues<NextCacheEntry>;
}

/** An entry as Next.js reads it. `value` is null for a page that was not found. */
export interface NextCacheEntry {
  lastModified: number;
  // biome-ignore lint/suspicious/noExplicitAny: a type of Next.js that changes with its versions
  value: any;
  cacheControl?: { revalidate: number | false; expire: number | undefined };
}

/** What is used of the context that Next.js gives with a call. */
interface Context {
  kind?: string;
  tags?: string[];
  softTags?: string[];
  cacheControl?: NextCacheEntry['cacheControl'];
}

/** When a tag was revalidated: entries from before are stale, or absent, from then on. */
interface Revalidated {
  stale?: number;
  expired?: number;
}

/** A cache handler of Next.js; see `nextCacheHandler`. */
export interface NextCacheHandler {
  get(key: string, context: object): Promise<NextCacheEntry | null>;
  set(key: string, value: unknown, context: object): Promise<void>;
  revalidateTag(tags: string | string[], durations?: { expire?: number }): Promise<void>;
  resetRequestCache(): void;
}

/**
 * The class that `cacheHandler` in `next.config` names a file for. All processes that serve a
 * build then have one cache of pages, routes and fetches, and `revalidateTag` and `revalidatePath`
 * hold for all of them at once.
 *
 *     export default nextCacheHandler(openSync('shm:my-app', { store: 'next' }));
 *
 * After a profile revalidates a tag (`revalidateTag(tag, 'max')`), Next.js renders a page with that
 * tag again before it answers, but answers a fetch with the stale entry once more.
 *
 * @throws StepwellError SW_INVALID_ARGUMENT, SW_INVALID_KEY.
 */
export function nextCacheHandler(
  store: AnyStore,
  options: NextCacheOptions = {},
): new (context?: {
  revalidatedTags?: string[];
}) => NextCacheHandler {
  checkOptions(options, ['prefix', 'ttlMs', 'values']);
  const { prefix = 'next:', ttlMs, values = 'v8' } = options;
  const kept = { ttlMs, values, sliding: false };
  const entries = spaceOf<NextCacheEntry>(store, `${prefix}entry:`, kept);
  const known = { ttlMs: YEAR_MS, values: 'json', sliding: false } as const;
  const tagged = spaceOf<Revalidated>(store, `${prefix}tag:`, known);

  return class StepwellCacheHandler implements NextCacheHandler {
    readonly #revalidated: string[];

    constructor(context: { revalidatedTags?: string[] } = {}) {
      this.#revalidated = context.revalidatedTags ?? [];
    }

    async get(key: string, context: Context): Promise<NextCacheEntry | null> {
      const entry = await entries.get(key);
      if (entry === undefined) return null;
      const tags = tagsOf(entry, context);
      if (tags.length === 0) return entry;
      const isFetch = entry.value?.kind === 'FETCH';
      if (isFetch && tags.some((tag) => this.#revalidated.includes(tag))) return null;
      const now = Date.now();
      const found = (await tagged.getMany(tags)).filter((mark) => mark !== undefined);
      const since = (at: number | undefined) => at !== undefined && at >= entry.lastModified;
      if (found.some(({ expired = now + 1 }) => expired <= now && since(expired))) return null;
      if (!found.some(({ stale }) => since(stale))) return entry;
      // To Next.js a fetch of long ago is stale, and a page of -1 is to be rendered first.
      return { ...entry, lastModified: isFetch ? 1 : -1 };
    }

    async set(key: string, value: unknown, { cacheControl }: Context): Promise<void> {
      const expire = cacheControl?.expire;
      const ends = expire === undefined ? undefined : { ttlMs: Math.max(1, expire * 1000) };
      await entries.set(key, { lastModified: Date.now(), value, cacheControl }, ends);
    }

    async revalidateTag(tags: string | string[], durations?: { expire?: number }): Promise<void> {
      const now = Date.now();
      for (const tag of new Set([tags].flat())) {
        const mark: Revalidated = durations ? { stale: now } : { expired: now };
        if (durations?.expire !== undefined) mark.expired = now + durations.expire * 1000;
        await tagged.set(tag, { ...(await tagged.get(tag)), ...mark });
      }
    }

    resetRequestCache(): void {}
  };
}

/** A fetch's tags come with the question, those of a page stand in its headers. */
function tagsOf({ value }: NextCacheEntry, { tags = [], softTags = [] }: Context): string[] {
  if (value?.kind === 'FETCH') return [...tags, ...softTags];
  const header = value?.headers?.[TAGS_HEADER];
  return typeof header === 'string' ? header.split(',') : [];
}
