import type { Driver, TransactionOptions, WatchCallback } from 'unstorage';
import type { AnyStore } from '../../helpers/host.ts';
import { watch } from '../../helpers/watch.ts';
import type { ExpiryOptions } from '../../store/api.ts';
import { checkOptions } from '../../store/arguments.ts';
import { spaceOf, textOf } from '../space.ts';

/** Options of `stepwellDriver`. */
export interface StepwellDriverOptions {
  /** Any store or namespace; it stays the caller's to close. */
  store: AnyStore;
  /** In front of each key. Default: nothing. */
  prefix?: string;
  /** How long items live, in seconds, as the `ttl` of `setItem`. Default: that of the store. */
  ttl?: number;
}

/**
 * A driver of unstorage: `createStorage({ driver: stepwellDriver({ store }) })`. Items are text,
 * raw items bytes. `setItem` takes `ttl` in seconds. `watch` looks ten times a second.
 *
 * @throws StepwellError SW_INVALID_ARGUMENT, SW_INVALID_KEY.
 */
export function stepwellDriver(options: StepwellDriverOptions): Driver<StepwellDriverOptions> {
  checkOptions(options, ['store', 'prefix', 'ttl']);
  const { store, prefix = '', ttl } = options;
  const ttlMs = ttl === undefined ? undefined : ttl * 1000;
  const texts = spaceOf<string | Uint8Array>(store, prefix, { ttlMs, values: 'utf8' });
  const bytes = texts.namespace('', { values: 'bytes' });
  return {
    name: 'stepwell',
    options,
    flags: { ttl: true },
    getInstance: () => store,
    hasItem: (key) => texts.has(key),
    getItem: async (key) => (await texts.get(key)) ?? null,
    getItemRaw: async (key) => (await bytes.get(key)) ?? null,
    getItems: async (items) => {
      const values = await texts.getMany(items.map(({ key }) => key));
      return items.map(({ key }, i) => ({ key, value: values[i] ?? null }));
    },
    setItem: (key, value, opts) => texts.set(key, value, expiryOf(opts)),
    setItemRaw: (key, value, opts) => bytes.set(key, value, expiryOf(opts)),
    removeItem: async (key) => {
      await texts.delete(key);
    },
    getKeys: async (base = '') => {
      const keys: string[] = [];
      for await (const key of texts.keys({ prefix: base })) keys.push(textOf(key));
      return keys;
    },
    clear: async (base = '') => {
      await texts.clear({ prefix: base });
    },
    watch: (callback) => watching(texts, callback),
  };
}

function expiryOf(options: TransactionOptions | undefined): ExpiryOptions | undefined {
  return options?.ttl ? { ttlMs: options.ttl * 1000 } : undefined;
}

/** Calls back with each change until the result is called. A look that fails ends it. */
function watching(store: AnyStore, callback: WatchCallback): () => void {
  const ending = new AbortController();
  const follow = async () => {
    for await (const { type, key } of watch(store, { prefix: '' }, { signal: ending.signal })) {
      callback(type === 'set' ? 'update' : 'remove', textOf(key));
    }
  };
  follow().catch((error) => {
    if (!ending.signal.aborted) throw error;
  });
  return () => ending.abort();
}
