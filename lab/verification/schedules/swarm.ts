import type { IndexParameters } from '../../../src/indexes/contract.ts';
import type { Prng } from '../../../src/random/prng.ts';
import type { Subject } from '../subjects/subject.ts';

export const CHUNKS_MAX = 64;
export const LANES_MAX = 4;

/** Which of a run's first steps are interleaved: none, joining, or also making the store. */
export type Startup = 'prepared' | 'joining' | 'creating';

/** What a run is made of and what goes wrong in it. Shares are in percent. */
export interface Swarm {
  /** Share of the removals that expect the version that the client saw last. */
  compares: number;
  /** Many keys in the same buckets, so that the table is split. */
  crowded: boolean;
  /** Shares of the operations: `writes`, `removes` and `modifies`; the rest are searches. */
  writes: number;
  removes: number;
  /** Share of the removals whose key a sample of the index meets, as an eviction's does. */
  evictions: number;
  /** Share of the writes with a deadline; some of the others have times, and never expire. */
  expiries: number;
  modifies: number;
  /** Share of the items that walk over everything. */
  walks: number;
  /** … or that search for all keys in shared doorbells. */
  batches: number;
  /** Share of the values that are chained. */
  chains: number;
  /** Share of the items with a quiescent point behind them. */
  restless: number;
  /** Operations in flight of one client, at most. */
  lanes: number;
  /** Share of the items that are servers for a while, if the index has servers. */
  serves: number;
  /** How often the table of such an index is lost. */
  losses: number;
  /** Share of the values that have the longer of two sizes; 0: other sizes, most of one line. */
  resizes: number;
  chunks: number;
  insists: boolean;
  startup: Startup;
  /** Share of the clients that die, and of their successors. */
  deaths: number;
  lateNotice: number;
  replacements: number;
  departures: number;
  /** Share of the clients that are declared dead while they stand still. */
  freezes: number;
  /** Share of the clients that soon give up a call when others keep them from finishing it. */
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

/** A seed's streams beside its main one. */
export interface Streams {
  apart: Prng;
  compared: Prng;
  leaving: Prng;
  resized: Prng;
}

/**
 * Swarm testing (Groce et al., ISSTA 2012): each run leaves out some of the features and overdoes
 * others, because features hide each other's bugs. A pool that is always full never splits, and if
 * all clients die, no client meets what the dead have left. Draws from the other streams change
 * nothing of what a seed draws from its main one.
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
