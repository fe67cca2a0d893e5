import type { IndexParameters } from '../../../src/indexes/contract.ts';
import type { Prng } from '../../../src/random/prng.ts';
import type { Subject } from '../subjects/subject.ts';

export const CHUNKS_MAX = 64;
export const LANES_MAX = 4;

/** Which of a run's first steps are interleaved: none, joining, or also making the store. */
export type Startup = 'prepared' | 'joining' | 'creating';

/** What a run is made of and what goes wrong in it. Shares are in percent. */
export interface Swarm {
  /** Of a removal: to expect the version that the client saw last. */
  compares: number;
  /** Many keys in the same buckets, so that the table is split. */
  crowded: boolean;
  /** Of an operation: to be a write, a removal or an increment; the rest are searches. */
  writes: number;
  removes: number;
  /** Of a removal: to be of a key that a sample of the index meets, as an eviction is. */
  evictions: number;
  /** Of a write: to have a deadline; some of the others have times, and never expire. */
  expiries: number;
  modifies: number;
  /** Of an item: to be a walk over everything. */
  walks: number;
  /** … or to be a search for all keys in shared doorbells. */
  batches: number;
  /** Of a value: to be chained. */
  chains: number;
  /** Of an item: to be followed by a quiescent point. */
  restless: number;
  /** Operations in flight of one client, at most. */
  lanes: number;
  /** Of an item: to be a server for a while, of an index that has servers. */
  serves: number;
  /** How often the table of such an index is lost. */
  losses: number;
  /** Of a value: to be the longer of two sizes; 0: values of other sizes, most of one line. */
  resizes: number;
  chunks: number;
  insists: boolean;
  startup: Startup;
  /** Of a client: to die, and of its successors to die too. */
  deaths: number;
  lateNotice: number;
  replacements: number;
  departures: number;
  /** Of a client: to be declared dead while it stands still. */
  freezes: number;
  /** Of a client: to give up calls soon that others keep from getting ahead. */
  haste: number;
}

export interface ScenarioOptions {
  /** The index; RACE when left out. */
  subject?: Subject;
  crashes?: boolean;
  /** Parameters of the index that are not left to chance. */
  shape?: IndexParameters;
  /** Features that are not left to chance. */
  swarm?: Partial<Swarm>;
}

/** No record leaves by itself: for seeds that are known from programs without that. */
export const STAYING: Partial<Swarm> = { evictions: 0, expiries: 0 };

/** Of a seed, beside its main stream. */
export interface Streams {
  apart: Prng;
  compared: Prng;
  leaving: Prng;
  resized: Prng;
}

/**
 * Swarm testing (Groce et al., ISSTA 2012): each run leaves out some of the features and overdoes
 * others, because features hide each other's bugs. A pool that is always full never splits, and
 * where everybody dies nobody meets what the dead have left. What is drawn from the other streams
 * changes nothing of what a seed draws otherwise.
 */
export function chooseSwarm(
  prng: Prng,
  { apart, compared, leaving, resized }: Streams,
  { crashes = true, subject, swarm }: ScenarioOptions,
): Swarm {
  const oneIn = (n: number) => prng.below(n) === 0;
  const crowded = oneIn(2);
  const mortal = oneIn(3);
  const resizes = resized.below(4) === 0 ? 30 + resized.below(41) : 0;
  return {
    crowded,
    writes: (crowded ? 40 : 20) + prng.below(crowded ? 40 : 50),
    removes: crowded ? 2 + prng.below(15) : 5 + prng.below(25),
    evictions: leaving.below(4) === 0 ? 20 + leaving.below(81) : 0,
    expiries: leaving.below(4) === 0 ? 20 + leaving.below(81) : 0,
    modifies: prng.below(20),
    walks: oneIn(3) ? 3 + prng.below(25) : 0,
    batches: oneIn(3) ? 3 + prng.below(15) : 0,
    chains: oneIn(12) ? 5 + prng.below(20) : 0,
    restless: oneIn(6) ? prng.below(10) : 30 + prng.below(70),
    lanes: oneIn(2) ? 1 : 2 + prng.below(LANES_MAX - 1),
    chunks: oneIn(3) ? 5 + prng.below(2) : CHUNKS_MAX,
    insists: oneIn(2),
    startup: chooseStartup(prng),
    deaths: crashes && mortal ? 20 + prng.below(80) : 0,
    lateNotice: prng.below(101),
    replacements: prng.below(101),
    departures: oneIn(3) ? prng.below(101) : 0,
    freezes: crashes && oneIn(6) ? prng.below(101) : 0,
    // Last, and of such an index alone: a seed's run stays what it was for the others.
    serves: subject?.servers && oneIn(3) ? 2 + prng.below(20) : 0,
    losses: subject?.servers && oneIn(3) ? 1 + prng.below(2) : 0,
    compares: compared.below(2) === 0 ? 10 + compared.below(91) : 0,
    haste: subject?.hasten && apart.below(4) === 0 ? 20 + apart.below(81) : 0,
    resizes,
    ...swarm,
  };
}

function chooseStartup(prng: Prng): Startup {
  const draw = prng.below(12);
  if (draw < 9) return 'prepared';
  return draw < 11 ? 'joining' : 'creating';
}
