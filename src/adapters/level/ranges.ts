import type { RangeOptions } from '../../store/ordered-api.ts';
import { type Data, toStore } from './formats.ts';

/** A range as abstract-level hands it to a database: a limit of -1 is none. */
export interface LevelRange {
  gte?: Data;
  gt?: Data;
  lte?: Data;
  lt?: Data;
  reverse: boolean;
  limit: number;
}

/** The inclusive end counts where both are given, as in other databases behind this interface. */
export function rangeOf({ gte, gt, lte, lt, reverse, limit }: LevelRange): RangeOptions {
  const range: RangeOptions = { reverse, limit: limit < 0 ? Number.POSITIVE_INFINITY : limit };
  if (gte !== undefined) range.gte = toStore(gte);
  else if (gt !== undefined) range.gt = toStore(gt);
  if (lte !== undefined) range.lte = toStore(lte);
  else if (lt !== undefined) range.lt = toStore(lt);
  return range;
}
