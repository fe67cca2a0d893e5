import { StepwellError } from '../../errors.ts';
import { control } from '../../pool/control.ts';
import { Batch, type Operation, readInteger, Scratch } from '../../verbs/index.ts';
import { PAIR, type PairGeometry, segmentCount } from './geometry.ts';

/**
 * The word says twice the generation of the pair's table, and 1 more while its memory is lost: from
 * when somebody has met a bucket that is none until a table of the next generation is there.
 */
export interface TableState {
  readonly generation: number;
  readonly isLost: boolean;
}

export function tableStateIn(words: Scratch, at: number): TableState {
  const word = readInteger(words, at);
  return { generation: Math.floor(word / 2), isLost: word % 2 === 1 };
}

/**
 * A bucket was met that is none: its memory was lost, or its table is an old one. Of which table it
 * is was noted before it was read: an interleaved operation may know a later one by now, which is
 * whole.
 */
export class TableLost extends StepwellError {
  readonly generation: number;

  constructor(generation: number) {
    super('SW_POOL_CORRUPT', 'a bucket of the hash table has lost its content');
    this.generation = generation;
  }
}

export function* readTableState({ base }: PairGeometry): Operation<TableState> {
  const words = new Scratch(8);
  yield new Batch().read(base + PAIR.table, 8, words, 0);
  return tableStateIn(words, 0);
}

/** Says that the table of this generation is lost, unless that was said or there is another one. */
export function* sayLost({ base }: PairGeometry, generation: number): Operation<void> {
  yield* control.swap(base + PAIR.table, BigInt(2 * generation), BigInt(2 * generation + 1));
}

/** The word of a table that is whole. */
export function wholeTable(generation: number): number {
  return 2 * generation;
}

/**
 * Reads where the segments of the table are. While a table is being put in the place of a lost one
 * these may be of both; those of the new one are complete then.
 */
export function* loadSegments(geometry: PairGeometry): Operation<void> {
  const count = segmentCount(geometry.shape);
  const words = new Scratch(8 * count);
  const { generation } = yield* readTableState(geometry);
  yield new Batch().read(geometry.segmentTable, 8 * count, words, 0);
  for (let i = 0; i < count; i++) geometry.segments[i] = readInteger(words, 8 * i);
  geometry.generation = generation;
}
