import { KeyGenerator } from '../workloads/index.ts';

/** The values of a store: documents of about 450 bytes of JSON, or texts of 100 bytes. */
export type ValueKind = 'json' | 'text';

export const PEER_NAMES = [
  'lru-cache',
  'stepwell',
  'stepwell near',
  'lmdb',
  'lmdb cache',
  'lmdb validated',
  'redis near',
] as const;
export type PeerName = (typeof PEER_NAMES)[number];

/** Where the peers keep their data, and what the data is. */
export interface Place {
  readonly url: string;
  readonly index: string;
  readonly lmdb: string;
  readonly redisPort: number;
  /** File of the versions that writers have acknowledged. */
  readonly versions: string;
  readonly values: ValueKind;
  readonly keys: number;
}

/** Reads of one peer, in its own process. */
export interface ReadTask {
  readonly distribution: 'uniform' | 'zipf';
  /** Whether reads use the same key strings again; otherwise each read has a new string. */
  readonly heldKeys: boolean;
  readonly reads: number;
  readonly seed: number;
  /** Whether to check that values are not stale. Such reads are not timed. */
  readonly checked: boolean;
}

export interface ReadResult {
  /** Per read; 0 for reads that are checked. */
  readonly nanoseconds: number;
  readonly stale: number;
}

/**
 * Nanoseconds per read, by kind of read and by handle. All handles are in the process that has the
 * near cache.
 */
export type ColdResult = Readonly<Record<string, Readonly<Record<string, number>>>>;

/** A document; `version` counts how often its key was written. */
interface Document {
  readonly id: number;
  readonly version: number;
  readonly title: string;
  readonly tags: readonly string[];
  readonly author: { readonly name: string; readonly mail: string };
  readonly body: string;
}

function documentOf(id: number, version: number): Document {
  return {
    id,
    version,
    title: `Document ${id} of an application`,
    tags: ['news', 'local', 'weather'],
    author: { name: `Author ${id % 1000}`, mail: `author${id % 1000}@example.org` },
    body: `Paragraph of document ${id}. `.padEnd(230, 'lorem ipsum dolor sit amet '),
  };
}

const TEXT_BYTES = 100;

export function textOf(version: number): string {
  return `${version}|`.padEnd(TEXT_BYTES, 'v');
}

export function contentOf(values: ValueKind, id: number, version: number): Document | string {
  return values === 'json' ? documentOf(id, version) : textOf(version);
}

/** The version that a value contains. */
export function versionOf(value: unknown): number {
  if (typeof value === 'string') return Number.parseInt(value, 10);
  return (value as Document).version;
}

/** The same keys in every process. */
export function keysOf(count: number): string[] {
  const generator = new KeyGenerator(1);
  return Array.from({ length: count }, (_, i) => generator.string(i));
}
