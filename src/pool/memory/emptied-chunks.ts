import type { Operation } from '../../verbs/index.ts';
import type { Pool } from '../pool.ts';
import {
  askedFor,
  CHUNK_BLOCKS,
  type ChunkWord,
  isAskedFor,
  notAskedFor,
  packChunk,
  RECYCLED,
  unpackChunk,
} from './chunk-word.ts';

interface OwnedChunk {
  chunk: number;
  word: ChunkWord;
}

/**
 * Takes chunks without a block in use from their owners, for any use: in a full pool those of a
 * client that sleeps, or that only reads, would stay empty for ever. Returns how many it found.
 * Only the client that `Pool.sweeper` names calls this, so one at a time. `outwait` waits until
 * every client is idle or has announced another epoch; false when one has not in all that time.
 *
 * 1. The taker sets ASKED_FOR in the words of the empty chunks, by CAS.
 * 2. It counts the request in the superblock. Each client READs the count right behind each WRITE
 *    that announces an epoch, before it claims a block. When the count has changed, it takes the
 *    flag out of its words by CAS, gives back its empty chunks and forgets those that are gone.
 * 3. The taker waits (`outwait`).
 * 4. It reads the state bytes again and makes the chunks that are empty free for any use, by a CAS
 *    from the word with the flag.
 *
 * Why no block is claimed in a chunk that was taken. Claims are plain WRITEs of state bytes, by the
 * owner alone, and only in an announced epoch. Let the CAS of step 4 succeed: then the owner has
 * not answered since step 1. It read the count behind its last announcement. If that was before
 * step 2, the announcement has ended by the end of step 3, and each claim under it was complete,
 * because clients announce between operations: step 4 has seen it and left the chunk alone. If it
 * was after step 2, the owner has claimed nothing under it, because it answers first, and its CAS
 * fails. The flag cannot have been taken out and set again in between: only the taker sets it.
 *
 * Crash points:
 * - The taker dies after step 1 or 2. Owners go on with chunks that are asked for: they claim,
 *   release and leave them with or without the flag. The next taker counts and waits by itself.
 * - The owner dies or leaves at any step: `ChunkTable.orphan` and `disown` make the chunk an orphan
 *   with or without the flag, and the CAS of step 4 fails.
 * - The owner dies while it answers: as above, for the words with the flag and for those without.
 * - The taker dies in step 4: each CAS stands for itself. Only the count of reusable chunks, which
 *   is a hint, may stay too low.
 * - An orphan that is asked for is adopted by no client. When its taker dies, the next taker finds
 *   the flag and finishes or takes it out.
 */
export function* takeEmptied(pool: Pool, outwait: () => Operation<boolean>): Operation<number> {
  const { chunks, allocator, reclamation } = pool;
  yield* reclamation.quiesce();
  try {
    const asked = yield* askForEmpty(pool);
    if (asked.length === 0) return 0;
    yield* reclamation.countRequest();
    const mayTake = yield* outwait();
    const empty = mayTake ? yield* allocator.emptyOf(asked) : new Set<number>();
    const taken = asked.filter(({ chunk }) => empty.has(chunk));
    yield* chunks.swapMany(
      taken.map(({ chunk, word }) => ({ chunk, from: packChunk(askedFor(word)), to: RECYCLED })),
      1n,
    );
    // A living owner answers by itself.
    const orphans = asked.filter(({ chunk, word }) => word.owner === 0 && !empty.has(chunk));
    yield* chunks.swapMany(
      orphans.map(({ chunk, word }) => {
        return { chunk, from: packChunk(askedFor(word)), to: packChunk(notAskedFor(word)) };
      }),
      1n,
    );
    // Also those that their owners have released when they were asked.
    return taken.length;
  } finally {
    yield* reclamation.goOffline();
  }
}

/** The chunks of others that are empty, and orphans that a dead taker has asked for. */
function* askForEmpty({ chunks, allocator, membership }: Pool): Operation<OwnedChunk[]> {
  const ofOthers = (yield* chunks.words())
    .map(([chunk, word]) => ({ chunk, word: unpackChunk(word) }))
    .filter(({ word: { state, owner } }) => state === CHUNK_BLOCKS && owner !== membership.id);
  const empty = yield* allocator.emptyOf(ofOthers);
  const isLeft = ({ word }: OwnedChunk) => word.owner === 0 && isAskedFor(word);
  const wanted = ofOthers.filter((one) => empty.has(one.chunk) || isLeft(one));
  const swaps = (owned: boolean) =>
    wanted
      .filter(({ word }) => !isAskedFor(word) && (word.owner !== 0) === owned)
      .map(({ chunk, word }) => ({
        chunk,
        from: packChunk(word),
        to: packChunk(askedFor(word)),
      }));
  const won = [
    ...(yield* chunks.swapMany(swaps(true), 0n)),
    ...(yield* chunks.swapMany(swaps(false), -1n)),
  ];
  const asked = new Set(won.map(({ chunk }) => chunk));
  return wanted.filter(({ chunk, word }) => isAskedFor(word) || asked.has(chunk));
}
