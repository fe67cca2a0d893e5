import type { IndexPicture } from '../indexes/picture.ts';
import type { PoolFigures } from '../store/watching/figures.ts';
import type { Point } from './points.ts';
import type { Shown } from './shown.ts';

/** What the page asks for and gets: JSON under /api/. */

/** `/api/figures?after=TIME`: the last look, and the points behind that time. */
export interface FiguresAnswer {
  figures: PoolFigures | null;
  points: Point[];
  /** Why the last look failed; null when it did not. */
  failure: string | null;
}

export interface ShownRecord {
  /** The key's bytes in base64url, to ask for its value by; null for a key too long for that. */
  id: string | null;
  key: Shown;
  /** Null for a record that was removed meanwhile, or whose value is not sent with the page. */
  value: Shown | null;
}

/**
 * `/api/keys?store=S&count=N&prefix=TEXT&next=NEXT` and, in an ordered store, `from=KEY`: a page of
 * records.
 */
export interface KeysAnswer {
  ordered: boolean;
  records: ShownRecord[];
  /** Asks for the next page: a key's id in an ordered store, else a cursor. */
  next: string | null;
}

/** `/api/value?store=S&id=ID`, or `&key=TEXT`: one record; the value is null when it is absent. */
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
