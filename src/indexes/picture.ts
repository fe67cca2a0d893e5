/** A drawing of an index for people. It is read once, by READs only. */

/** Something with entries for records: a level, a table, a ring. */
export interface PictureBar {
  name: string;
  used: number;
  slots: number;
}

/** A part of an index: a subtable, a segment, a partition, a node, a leaf. */
export interface PicturePart {
  /** Identifies the part: its number, or the keys that it begins with. */
  name: string;
  /** For a part that a directory leads to: the last bits of its keys' hashes, and how many. */
  suffix?: number;
  depth?: number;
  /** Which of the shown parts of the layer above leads to it. */
  above?: number;
  used: number;
  slots: number;
  /** How full its cells are, from 0 to 1, in order. */
  cells: number[];
  /** What it consists of, where that is more than one thing. */
  bars?: PictureBar[];
}

/** Parts of one kind. */
export interface PictureLayer {
  /** Plural name of the parts, and the name of one of their cells. */
  parts: string;
  cell: string;
  /** How many there are; estimated from those that were read where `isExact` is false. */
  total: number;
  isExact: boolean;
  /** Those that were read, spread over all of them. */
  shown: PicturePart[];
}

export interface IndexPicture {
  /** For an index with a directory: how many suffix bits it distinguishes. */
  globalDepth?: number;
  /** From what leads to the records down to what holds them. */
  layers: PictureLayer[];
  /** Totals of the whole index, estimated from the parts that were read. */
  records: number;
  slots: number;
  isExact: boolean;
}

/** `count` of the items, spread evenly; all of them if there are no more. */
export function spread<T>(items: readonly T[], count: number): T[] {
  if (items.length <= count) return [...items];
  return Array.from({ length: count }, (_, i) => items[Math.floor((i * items.length) / count)]);
}

/** The picture of an index whose last layer holds all records. */
export function pictureOf(layers: PictureLayer[], globalDepth?: number): IndexPicture {
  const { shown, total, isExact } = layers[layers.length - 1];
  const sum = (of: 'used' | 'slots') => shown.reduce((all, part) => all + part[of], 0);
  const scale = total / Math.max(1, shown.length);
  const whole = isExact && shown.length === total && shown.every(({ cells }) => cells.length > 0);
  return {
    ...(globalDepth === undefined ? {} : { globalDepth }),
    layers,
    records: Math.round(scale * sum('used')),
    slots: Math.round(scale * sum('slots')),
    isExact: whole,
  };
}
