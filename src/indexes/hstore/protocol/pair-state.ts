import { invariant, StepwellError } from '../../../errors.ts';
import { control } from '../../../pool/control.ts';
import { Batch, type Operation, readInteger, Scratch } from '../../../verbs/index.ts';
import { bucketsOf, PAIR, PAIR_STATE_BYTES, type PairGeometry, segmentCount } from './geometry.ts';
import { type Holder, holderIn } from './lease.ts';
import { type Word, wordIn } from './word.ts';

/** The words of a pair that tell how far its servers are. */
export interface PairState {
  /** The client that is the hash server. */
  holder: Holder;
  begun: number;
  committed: number;
  table: TableState;
  /** The last turn that was decided. */
  turn: Word;
  /** Changes whenever a hash server makes progress: its beat, the log and the turn. */
  progress: number;
  /** How far the skiplist server is; its beat is its progress. */
  skiplist: { holder: Holder; progress: number; applied: number };
}

/**
 * Twice the generation of the pair's table, and 1 more while its memory is lost: from the moment
 * that a client reports it until a table of the next generation is published.
 */
export interface TableState {
  readonly generation: number;
  readonly isLost: boolean;
}

export function tableStateIn(words: Scratch, at: number): TableState {
  const word = readInteger(words, at);
  return { generation: Math.floor(word / 2), isLost: word % 2 === 1 };
}

/** The word of a table that is whole. */
export function wholeTable(generation: number): number {
  return 2 * generation;
}

/**
 * A bucket lacks its mark: its memory was lost, or its table is an old one. `generation` is that of
 * the table that was read: an interleaved operation may have loaded a later one.
 */
export class TableLost extends StepwellError {
  readonly generation: number;

  constructor(generation: number) {
    super('SW_POOL_CORRUPT', 'a bucket of the hash table has lost its content');
    this.generation = generation;
  }
}

/**
 * The words of one READ are not of one moment. The table's word is read last, so that a sequence
 * committed to a later table is not mistaken for one of this table.
 */
export function* readState({ geometry }: { geometry: PairGeometry }): Operation<PairState> {
  const words = new Scratch(PAIR_STATE_BYTES);
  const { base } = geometry;
  yield new Batch()
    .read(base, PAIR_STATE_BYTES, words, 0)
    .read(base + PAIR.table, 8, words, PAIR.table);
  return stateIn(words);
}

/** The state of a pair whose first words were READ. */
export function stateIn(words: Scratch): PairState {
  const begun = readInteger(words, PAIR.begun);
  const committed = readInteger(words, PAIR.committed);
  const beat = readInteger(words, PAIR.hashLease + 8);
  const holder = holderIn(words, PAIR.hashLease);
  const table = tableStateIn(words, PAIR.table);
  const turn = wordIn(words, PAIR.turn);
  // A turn with only refusals changes no other count.
  const progress = begun + committed + beat + (turn.high >>> 0) / 2 ** 32;
  const skiplist = {
    holder: holderIn(words, PAIR.skiplistLease),
    progress: readInteger(words, PAIR.skiplistLease + 8),
    applied: readInteger(words, PAIR.applied),
  };
  return { holder, begun, committed, table, turn, progress, skiplist };
}

/** Reports this generation's table as lost. False if another client has, or has replaced it. */
export function* reportLost({ base }: PairGeometry, generation: number): Operation<boolean> {
  const whole = BigInt(wholeTable(generation));
  return yield* control.swap(base + PAIR.table, whole, whole + 1n);
}

/** Withdraws this client's own report. If a bucket is lost, its next reader reports it again. */
export function* withdrawReport({ base }: PairGeometry, generation: number): Operation<void> {
  const whole = BigInt(wholeTable(generation));
  yield* control.swap(base + PAIR.table, whole + 1n, whole);
}

/**
 * Reads where the segments of the table are. While a new table is being published, some may be the
 * old table's and some the new one's. The new ones are complete by then, and have other marks if
 * the table has grown.
 */
export function* loadSegments(geometry: PairGeometry): Operation<void> {
  const { table } = yield* readState({ geometry });
  const count = segmentCount(bucketsOf(geometry.shape, table.generation));
  const words = new Scratch(8 * count);
  yield new Batch().read(geometry.segmentTable, 8 * count, words, 0);
  for (let i = 0; i < count; i++) {
    const segment = readInteger(words, 8 * i);
    invariant(segment > 0, 'the hash table lacks a segment');
    geometry.segments[i] = segment;
  }
  geometry.use(table.generation);
}
