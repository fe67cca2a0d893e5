import { highHalf, lowHalf, type Scratch } from '../../../verbs/index.ts';

/** A word of the pool as its halves: JavaScript's bit operators take 32 bits. */
export interface Word {
  readonly low: number;
  readonly high: number;
}

export function wordIn(words: Scratch, at: number): Word {
  return { low: lowHalf(words, at), high: highHalf(words, at) };
}

/** `value`: a non-negative integer. */
export function wordOf(value: number): Word {
  return { low: value | 0, high: Math.floor(value / 2 ** 32) };
}

/** Whether this word stands at `at`. */
export function isWordIn(words: Scratch, at: number, { low, high }: Word): boolean {
  return lowHalf(words, at) === low && highHalf(words, at) === high;
}

export function isSame(one: Word, other: Word): boolean {
  return one.low === other.low && one.high === other.high;
}
