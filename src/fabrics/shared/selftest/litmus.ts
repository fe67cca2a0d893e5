/**
 * Litmus tests of the verbs' order on this processor: two threads run short programs against each
 * other, and some outcomes contradict the contract of a batch (`verbs/batch.ts`). Every test has a
 * control, the same verbs in an order of which nothing is promised: unless the control shows the
 * outcome, the threads did not meet and nothing is proven.
 */

/**
 * What a thread does in a round: verbs on the words X and Y. W writes the round's number, F adds
 * one (which makes it the round's number, too), R reads; `|` begins another batch.
 */
export type Program = readonly ('WX' | 'WY' | 'FX' | 'FY' | 'RX' | 'RY' | '|')[];

/** What the READs of a thread found, by round; rounds begin with 1. */
export interface Found {
  readonly X: Int32Array;
  readonly Y: Int32Array;
}

export interface Litmus {
  readonly name: string;
  readonly programs: readonly [Program, Program];
  readonly control: readonly [Program, Program];
  /** How many rounds had an outcome that the contract forbids. */
  forbidden(first: Found, second: Found): number;
}

export const LITMUS_TESTS: readonly Litmus[] = [
  message('WRITE, WRITE; READ, READ', ['WX', 'WY'], ['RY', 'RX'], ['RX', 'RY']),
  message('batch by batch', ['WX', '|', 'WY'], ['RY', '|', 'RX'], ['RX', '|', 'RY']),
  message('WRITE, FAA; READ, READ', ['WX', 'FY'], ['RY', 'RX'], ['RX', 'RY']),
  message('FAA, WRITE; READ, READ', ['FX', 'WY'], ['RY', 'RX'], ['RX', 'RY']),
  storeBuffer('WRITE, READ', ['WX', 'RY'], ['WY', 'RX']),
  storeBuffer('WRITE, READ, batch by batch', ['WX', '|', 'RY'], ['WY', '|', 'RX']),
  storeBuffer('FAA, READ', ['FX', 'RY'], ['FY', 'RX']),
  loadBuffer('READ, WRITE, batch by batch', ['RY', '|', 'WX'], ['RX', '|', 'WY']),
];

/** X is changed before Y: a reader that sees Y's change and then reads X sees X's change. */
function message(name: string, writer: Program, reader: Program, control: Program): Litmus {
  return {
    name: `message passing: ${name}`,
    programs: [writer, reader],
    control: [writer, control],
    forbidden: (_, { X, Y }) => countRounds(Y, (round) => X[round] < Y[round]),
  };
}

/** Each changes its word, then reads the other's: they cannot both have missed the change. */
function storeBuffer(name: string, first: Program, second: Program): Litmus {
  return {
    name: `store buffer: ${name}`,
    programs: [first, second],
    control: [first.toReversed(), second.toReversed()],
    forbidden: ({ Y }, { X }) => countRounds(Y, (round) => X[Y[round] + 1] < round),
  };
}

/** Each reads the other's word, then changes its own: they cannot both have seen the change. */
function loadBuffer(name: string, first: Program, second: Program): Litmus {
  return {
    name: `load buffer: ${name}`,
    programs: [first, second],
    control: [first.toReversed(), second.toReversed()],
    forbidden: ({ Y }, { X }) => countRounds(Y, (round) => Y[round] > 0 && X[Y[round]] >= round),
  };
}

function countRounds(found: Int32Array, isForbidden: (round: number) => boolean): number {
  let count = 0;
  for (let round = 1; round < found.length; round++) if (isForbidden(round)) count++;
  return count;
}
