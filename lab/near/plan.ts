import { KeyGenerator } from '../workloads/index.ts';

/** The values of a store: documents of about 450 bytes of JSON, or texts of 100 bytes. */
export type ValueKind = 'json' | 'text';

export const PEER_NAMES = [
  'lru-cache',
  'stepwell',
  'stepwell near',
  'lmdb',
  'lmdb cache',
  'redis near',
] as const;
export type PeerName = (typeof PEER_NAMES)[number];

/** Where the peers keep their data, and what it is. */
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

/** Reads of one peer, in a process of its own. */
export interface ReadTask {
  readonly distribution: 'uniform' | 'zipf';
  /** Whether the caller holds its keys; otherwise each read has a string of its own. */
  readonly heldKeys: boolean;
  readonly reads: number;
  readonly seed: number;
  /** Whether to compare each value with what was acknowledged before; such reads are not timed. */
  readonly checked: boolean;
}

export interface ReadResult {
  /** Per read; 0 for reads that are checked. */
  readonly nanoseconds: number;
  readonly stale: number;
}

/**
 * Reads of a near cache's process, by handles that share its heap: nanoseconds by what is read and
 * by whom.
 */
export type ColdResult = Readonly<Record<string, Readonly<Record<string, number>>>>;

/** A document; `version` counts how often its key was written. */
export interface Document {
  readonly id: number;
  readonly version: number;
  readonly title: string;
  readonly tags: readonly string[];
  readonly author: { readonly name: string; readonly mail: string };
  readonly body: string;
}

export function documentOf(id: number, version: number): Document {
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

/** The version that a value says it is of. */
export function versionOf(value: unknown): number {
  if (typeof value === 'string') return Number.parseInt(value, 10);
  return (value as Document).version;
}

/** The same keys in every process. */
export function keysOf(count: number): string[] {
  const generator = new KeyGenerator(1);
  return Array.from({ length: count }, (_, i) => generator.string(i));
}
