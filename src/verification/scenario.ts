import { ALWAYS, type Condition, IF_ABSENT, IF_PRESENT, IF_VERSION } from '../indexes/contract.ts';
import { RaceGeometry, type RaceShape } from '../indexes/race/geometry.ts';
import { Prng } from '../random/prng.ts';
import { HASH_PADDING, KeyHash } from '../records/hash.ts';
import { Scratch } from '../verbs/index.ts';
import { type Call, LAST_SEEN } from './history.ts';

/** What a client does between two operations. */
export type Pause = 'none' | 'quiesce' | 'collect' | 'offline';

export interface ProgramItem {
  /** Names the item in a shrunk reproduction. */
  id: number;
  call: Call;
  after: Pause;
}

export interface ClientPlan {
  items: ProgramItem[];
  /** The client dies when it has let so many pieces happen; Infinity for most. */
  crashAfter: number;
  /** Steps of the run between its death and the time at which another client notices. */
  noticedAfter: number;
  /** Whether a new client goes on with the rest of its program. */
  replaced: boolean;
}

export interface Scenario {
  seed: number;
  shape: RaceShape;
  /** Chunks of the pool; with few of them it becomes full. */
  chunks: number;
  keys: string[];
  clients: ClientPlan[];
}

const DEPTH_LIMIT = 8;
export const CHUNKS_MAX = 64;

/** Everything but the schedule, from one seed. */
export function scenarioOf(seed: number, { crashes = true } = {}): Scenario {
  const prng = Prng.fromSeed(seed).fork(1);
  const crowded = prng.below(2) === 0;
  const shape = {
    associativity: crowded && prng.below(3) > 0 ? 1 : 1 + prng.below(2),
    groups: 2 + prng.below(2),
    initialDepth: prng.below(2),
    maxDepth: DEPTH_LIMIT,
    seed: prng.next32(),
  };
  const slots = 4 * shape.associativity;
  const keyCount = crowded ? slots + prng.below(4) : 2 + prng.below(5);
  const keys = chooseKeys(prng, keyCount, shape, crowded);
  const clientCount = 2 + prng.below(3);
  const length = crowded ? 6 + prng.below(14) : 3 + prng.below(12);
  const chunks = prng.below(4) === 0 ? 6 + prng.below(8) : CHUNKS_MAX;
  const mortal = crashes && prng.below(3) === 0;
  const mix = chooseMix(prng, crowded);
  let id = 0;
  const clients = Array.from({ length: clientCount }, (_, client) => {
    const items = Array.from({ length }, () => {
      const call = chooseCall(prng, keys.length, ++id, mix);
      return { id, call, after: choosePause(prng, mix) };
    });
    const dies = mortal && client > 0 && prng.below(2) === 0;
    return {
      items,
      crashAfter: dies ? 1 + prng.below(40 * length) : Number.POSITIVE_INFINITY,
      noticedAfter: prng.below(2) === 0 ? prng.below(50) : prng.below(3000),
      replaced: prng.below(2) === 0,
    };
  });
  return { seed, shape, chunks, keys, clients };
}

interface Mix {
  writes: number;
  removes: number;
  modifies: number;
  restless: number;
}

function chooseMix(prng: Prng, crowded: boolean): Mix {
  return {
    writes: (crowded ? 40 : 20) + prng.below(crowded ? 40 : 50),
    removes: crowded ? 2 + prng.below(15) : 5 + prng.below(25),
    modifies: prng.below(20),
    restless: 30 + prng.below(70),
  };
}

function chooseCall(prng: Prng, keys: number, id: number, mix: Mix): Call {
  const key = prng.below(3) === 0 ? 0 : prng.below(keys);
  const draw = prng.below(100);
  // Now and then a record takes more than one line: another size class, and a longer READ.
  const digits = prng.below(5) === 0 ? 40 + prng.below(150) : 0;
  const value = String(id * 1000).padStart(digits, '0');
  // Spaced, so that versions counted on from one record never meet another's.
  const version = id * 1000;
  if (draw < mix.writes) {
    const condition = chooseCondition(prng);
    return { key, kind: 'write', condition, expected: LAST_SEEN, value, version };
  }
  if (draw < mix.writes + mix.removes) return { key, kind: 'remove' };
  if (draw < mix.writes + mix.removes + mix.modifies) {
    return { key, kind: 'modify', value, version };
  }
  return { key, kind: 'search' };
}

function chooseCondition(prng: Prng): Condition {
  const draw = prng.below(10);
  if (draw < 5) return ALWAYS;
  if (draw < 8) return IF_ABSENT;
  return draw < 9 ? IF_PRESENT : IF_VERSION;
}

function choosePause(prng: Prng, { restless }: Mix): Pause {
  if (prng.below(100) >= restless) return 'none';
  const draw = prng.below(10);
  if (draw < 3) return 'quiesce';
  return draw < 7 ? 'collect' : 'offline';
}

/**
 * Keys of which some share a fingerprint, so that candidates of other keys are met, or, in a
 * crowded table, all four buckets, so that it has to be split.
 */
function chooseKeys(prng: Prng, count: number, shape: RaceShape, crowded: boolean): string[] {
  const geometry = new RaceGeometry(shape);
  const keys: string[] = [];
  const alike = prng.below(crowded ? 6 : 2) === 0;
  // Suffixes that agree make one split after the other necessary.
  const suffixMask = 2 ** prng.below(4) - 1;
  let wanted = '';
  for (let i = 0; keys.length < count; i++) {
    const name = `k${i.toString(36)}`;
    const { h1, h2, h3 } = hashOf(name, shape.seed);
    let likeness = '';
    if (alike) likeness += h1 >>> 24;
    if (crowded)
      likeness += `/${h1 & suffixMask}/${geometry.firstChoice(h2)}/${geometry.secondChoice(h2, h3)}`;
    if (keys.length > 0 && i < 10_000 && likeness !== wanted) continue;
    wanted = likeness;
    keys.push(name);
  }
  return keys;
}

function hashOf(name: string, seed: number): KeyHash {
  const scratch = new Scratch(64 + HASH_PADDING);
  for (let i = 0; i < name.length; i++) scratch.u8[i] = name.charCodeAt(i);
  const hash = new KeyHash();
  hash.compute(scratch.i32, 0, name.length, seed);
  return hash;
}
