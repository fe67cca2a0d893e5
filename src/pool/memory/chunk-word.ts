import { packFields, unpackFields } from '../control.ts';

/** Recycled: its bytes are stale. */
export const CHUNK_FREE = 1;
/** Carved into blocks of one size by its owner; owner 0 is an orphan that anyone may adopt. */
export const CHUNK_BLOCKS = 2;
/** Part of a contiguous run that belongs to an index. */
export const CHUNK_SPAN = 3;

/** Recycled and taken; its state bytes are not zero yet, so no client may adopt it as it is. */
export const CHUNK_PREPARING = 4;
/** Intent slots of a group of clients: see intents/intent-slots.ts. */
export const CHUNK_INTENTS = 5;

/** Beside the incarnation: a client asks for the chunk, see emptied-chunks.ts. */
export const ASKED_FOR = 2 ** 16;

export interface ChunkWord {
  state: number;
  /** Row of the catalog whose store the chunk serves. */
  catalog: number;
  /** Lines of a block; for a span, of which kind it is; for intent slots, their group. */
  units: number;
  owner: number;
  incarnation: number;
}

const FIELDS = [4, 8, 16, 12, 24] as const;
export function packChunk(word: ChunkWord): bigint {
  const { state, catalog, units, owner, incarnation } = word;
  const fields = [state, catalog, units, owner, incarnation];
  return packFields(fields.map((value, i) => [value, FIELDS[i]] as const));
}

export function unpackChunk(word: bigint): ChunkWord {
  const [state, catalog, units, owner, incarnation] = unpackFields(word, FIELDS);
  return { state, catalog, units, owner, incarnation };
}

export function isAskedFor({ incarnation }: ChunkWord): boolean {
  return incarnation >= ASKED_FOR;
}

export function askedFor(word: ChunkWord): ChunkWord {
  return { ...word, incarnation: (word.incarnation % ASKED_FOR) + ASKED_FOR };
}

export function notAskedFor(word: ChunkWord): ChunkWord {
  return { ...word, incarnation: word.incarnation % ASKED_FOR };
}

/** The word of a chunk that is free for any use. */
export const RECYCLED = packChunk({
  state: CHUNK_FREE,
  catalog: 0,
  units: 0,
  owner: 0,
  incarnation: 0,
});
