import type { AnyStore } from '../../helpers/host.ts';
import { checkOptions } from '../../store/arguments.ts';
import { type AdapterValues, spaceOf } from '../space.ts';

export type { AdapterValues };

/** The header of a cached page that lists its tags. */
const TAGS_HEADER = 'x-next-cache-tags';
/** How long a tag's revalidation is remembered: Next.js serves no entry for longer than that. */
const YEAR_MS = 365 * 86_400_000;

/** Options of `nextCacheHandler`. */
export interface NextCacheOptions {
  /** Prefix of each key. Use one per build: a build must not read the entries of an older one. */
  prefix?: string;
  /** How long entries live that Next.js gives no expiry. Default: the store's lifetime. */
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

/** The fields that are used of the context that Next.js passes with a call. */
interface Context {
  kind?: string;
  tags?: string[];
  softTags?: string[];
  cacheControl?: NextCacheEntry['cacheControl'];
}

/** From when on entries that are older than a tag's revalidation are stale, or count as absent. */
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
 * Makes the class that the file named by `cacheHandler` in `next.config` exports. All processes
 * that serve a build then share one cache of pages, routes and fetches, and `revalidateTag` and
 * `revalidatePath` take effect in all of them at once.
 *
 *     export default nextCacheHandler(openSync('shm:my-app', { store: 'next' }));
 *
 * After a revalidation with a profile (`revalidateTag(tag, 'max')`), Next.js renders a page with
 * that tag again before it answers, but answers a fetch with the stale entry once more.
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
      // Next.js treats an old fetch as stale, and renders a page again if its date is -1.
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

/** The tags of a fetch come with the request; those of a page are in its headers. */
function tagsOf({ value }: NextCacheEntry, { tags = [], softTags = [] }: Context): string[] {
  if (value?.kind === 'FETCH') return [...tags, ...softTags];
  const header = value?.headers?.[TAGS_HEADER];
  return typeof header === 'string' ? header.split(',') : [];
}
