import type { IndexPicture } from '../indexes/picture.ts';
import type { PoolFigures } from '../store/watching/figures.ts';
import type { Point } from './points.ts';
import type { Shown } from './shown.ts';

/** The JSON answers under /api/. */

/** `/api/figures?after=TIME`: the latest figures, and the points after that time. */
export interface FiguresAnswer {
  figures: PoolFigures | null;
  points: Point[];
  /** Why the last reading failed, or null. */
  failure: string | null;
}

export interface ShownRecord {
  /** The key's bytes in base64url, for requests of its value; null if that would be too long. */
  id: string | null;
  key: Shown;
  /** Null if the record was removed, or if its value is not sent with the page. */
  value: Shown | null;
}

/**
 * `/api/keys?store=S&count=N&prefix=TEXT&next=NEXT` and, in an ordered store, `from=KEY`: a page of
 * records.
 */
export interface KeysAnswer {
  ordered: boolean;
  records: ShownRecord[];
  /** Selects the next page: a key's id in an ordered store, otherwise a cursor. */
  next: string | null;
}

/** `/api/value?store=S&id=ID`, or `&key=TEXT`: one record; the value is null if it is absent. */
export interface ValueAnswer {
  id: string | null;
  key: Shown;
  value: Shown | null;
  version: number | null;
  /** Milliseconds until it expires; null for never. */
  ttlMs: number | null;
}

/** `/api/picture?store=S&parts=N`. */
export interface PictureAnswer {
  picture: IndexPicture;
  index: string;
}

export interface Failure {
  code: string;
  message: string;
}
