import { StepwellError } from '../../../errors.ts';
import {
  Batch,
  highHalf,
  lowHalf,
  type Operation,
  type RemoteFabric,
  runRemote,
  Scratch,
  setWord,
} from '../../../verbs/index.ts';

/** Whether a transport kept the order of verbs on one endpoint, and if not, why. */
export interface ProvenOrders {
  ordered: boolean;
  reason: string;
}

const ROUNDS = 8;
const WORD = 0;
/** A summand whose addition carries from the low half into the high half. */
const ADDEND: Halves = [0xffff_fff0 | 0, 0x0102_0304];
type Halves = readonly [low: number, high: number];

/** Offsets of the local words of a round. */
const AT = { first: 0, second: 8, cas: 16, seen: 40, faa: 48, after: 64 } as const;
const LOCAL_BYTES = 128;

/**
 * Tests on memory outside any pool whether 64-bit CAS and FAA work alone. It then tests whether
 * WRITE, WRITE, CAS, READ, FAA and READ of one word keep their order in one batch. Raises
 * SW_UNSUPPORTED when an atomic is wrong; a broken order is only reported.
 */
export function proveOrders(fabric: RemoteFabric): Promise<ProvenOrders> {
  return runRemote(fabric, proving());
}

function* proving(): Operation<ProvenOrders> {
  const scratch = new Scratch(LOCAL_BYTES);
  for (const isTogether of [false, true]) {
    for (let round = 1; round <= ROUNDS; round++) {
      yield* postRound(scratch, round, isTogether);
      const wrong = wrongOf(scratch, round);
      if (wrong === undefined) continue;
      if (isTogether) return { ordered: false, reason: `${wrong} in one batch` };
      const why = 'the transport executes no 64-bit CAS and FAA as the pool needs them';
      throw new StepwellError('SW_UNSUPPORTED', `${why}: ${wrong}`);
    }
  }
  return { ordered: true, reason: '' };
}

/** The words of a round. No two rounds share a word. */
function wordsOf(round: number): { first: Halves; second: Halves; third: Halves } {
  return {
    first: [round, -round],
    second: [round + 1000, ~round],
    third: [0x7fff_ff00 + round, 2000 + round],
  };
}

function* postRound(scratch: Scratch, round: number, isTogether: boolean): Operation<void> {
  const { first, second, third } = wordsOf(round);
  setWord(scratch, AT.first, ...first);
  setWord(scratch, AT.second, ...second);
  setWord(scratch, AT.cas, ...second);
  setWord(scratch, AT.cas + 8, ...third);
  setWord(scratch, AT.faa, ...ADDEND);
  const batch = new Batch();
  const posts = [
    () => batch.write(WORD, 8, scratch, AT.first),
    () => batch.write(WORD, 8, scratch, AT.second),
    () => batch.cas(WORD, scratch, AT.cas),
    () => batch.read(WORD, 8, scratch, AT.seen),
    () => batch.faa(WORD, scratch, AT.faa),
    () => batch.read(WORD, 8, scratch, AT.after),
  ];
  if (isTogether) {
    // Without the READ before the FAA: no transport has to keep that order.
    for (const [i, post] of posts.entries()) if (i !== 3) post();
    yield batch;
    return;
  }
  for (const post of posts) {
    batch.clear();
    post();
    yield batch;
  }
}

/** What went wrong in a round, if anything. */
function wrongOf(scratch: Scratch, round: number): string | undefined {
  const { second, third } = wordsOf(round);
  if (!holds(scratch, AT.cas + 16, second)) return 'a CAS did not find what was written before it';
  if (!holds(scratch, AT.faa + 8, third)) return 'a FAA did not find what a CAS before it left';
  if (!holds(scratch, AT.after, sumOf(third, ADDEND))) {
    return 'a READ did not find what a FAA before it left';
  }
  return undefined;
}

function holds(scratch: Scratch, at: number, [low, high]: Halves): boolean {
  return lowHalf(scratch, at) === (low | 0) && highHalf(scratch, at) === (high | 0);
}

function sumOf([low, high]: Halves, [addedLow, addedHigh]: Halves): Halves {
  const sum = (low >>> 0) + (addedLow >>> 0);
  return [sum | 0, (high + addedHigh + (sum > 0xffff_ffff ? 1 : 0)) | 0];
}
