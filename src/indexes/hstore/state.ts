import { Batch, type Operation, readInteger, Scratch } from '../../verbs/index.ts';
import { PAIR, PAIR_STATE_BYTES } from './geometry.ts';
import type { Holder } from './lease.ts';
import type { Pair } from './pair.ts';

/** The words of a pair that tell how far the hash server is. */
export interface PairState {
  /** Who is the hash server. */
  holder: Holder;
  begun: number;
  committed: number;
  /** Changes whenever a hash server gets ahead: its beat, and how far the log is. */
  progress: number;
}

/** One READ; its words are of one server's making but not of one moment. */
export function* readState(pair: Pair): Operation<PairState> {
  const words = new Scratch(PAIR_STATE_BYTES);
  yield new Batch().read(pair.geometry.base, PAIR_STATE_BYTES, words, 0);
  return stateIn(pair, words, 0);
}

/** The state of a pair whose first words were READ. */
export function stateIn({ hashLease }: Pair, words: Scratch, at: number): PairState {
  const begun = readInteger(words, at + PAIR.begun);
  const committed = readInteger(words, at + PAIR.committed);
  const beat = readInteger(words, at + PAIR.hashLease + 8);
  const holder = hashLease.holderIn(words, at + PAIR.hashLease);
  return { holder, begun, committed, progress: begun + committed + beat };
}

/** Who is the skiplist server, and its beat. */
export function* readSkiplistState({
  geometry,
  skiplistLease,
}: Pair): Operation<{ holder: Holder; progress: number }> {
  const words = new Scratch(16);
  yield new Batch().read(geometry.base + PAIR.skiplistLease, 16, words, 0);
  return { holder: skiplistLease.holderIn(words, 0), progress: readInteger(words, 8) };
}
