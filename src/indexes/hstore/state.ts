import { Batch, type Operation, readInteger, Scratch } from '../../verbs/index.ts';
import { PAIR, PAIR_STATE_BYTES } from './geometry.ts';
import type { Holder } from './lease.ts';
import type { Pair } from './pair.ts';
import { type TableState, tableStateIn } from './table-state.ts';
import { type TurnWord, turnIn } from './turn-word.ts';

/** The words of a pair that tell how far the hash server is. */
export interface PairState {
  /** Who is the hash server. */
  holder: Holder;
  begun: number;
  committed: number;
  /** Of which generation the table is, and whether its memory was lost. */
  table: TableState;
  /** Changes whenever a hash server gets ahead: its beat, and how far the log is. */
  progress: number;
}

/**
 * Words of one READ are not of one moment. The table's is read last: a sequence that was committed
 * to another table than it tells is never taken for one of this table.
 */
export function* readState(pair: Pair): Operation<PairState> {
  const words = new Scratch(PAIR_STATE_BYTES);
  const { base } = pair.geometry;
  yield new Batch()
    .read(base, PAIR_STATE_BYTES, words, 0)
    .read(base + PAIR.table, 8, words, PAIR.table);
  return stateIn(pair, words, 0);
}

/** The state of a pair whose first words were READ. */
export function stateIn(
  { hashLease }: Pick<Pair, 'hashLease'>,
  words: Scratch,
  at: number,
): PairState {
  const begun = readInteger(words, at + PAIR.begun);
  const committed = readInteger(words, at + PAIR.committed);
  const beat = readInteger(words, at + PAIR.hashLease + 8);
  const holder = hashLease.holderIn(words, at + PAIR.hashLease);
  const table = tableStateIn(words, at + PAIR.table);
  // A turn of refusals alone is in no count but its own.
  const turn = turnIn(words, at + PAIR.turn);
  const progress = begun + committed + beat + (turn.high >>> 0) / 2 ** 32;
  return { holder, begun, committed, table, progress };
}

/** The last turn that was decided. */
export function* readTurn({ geometry }: Pair): Operation<TurnWord> {
  const words = new Scratch(8);
  yield new Batch().read(geometry.base + PAIR.turn, 8, words, 0);
  return turnIn(words, 0);
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
