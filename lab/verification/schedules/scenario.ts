import {
  ALWAYS,
  type Condition,
  IF_ABSENT,
  IF_PRESENT,
  IF_VERSION,
  type IndexParameters,
} from '../../../src/indexes/contract.ts';
import { Prng } from '../../../src/random/prng.ts';
import { SLOT_UNITS_MAX } from '../../../src/records/layout.ts';
import { UNIT_BYTES } from '../../../src/verbs/index.ts';
import { type Call, LAST_SEEN } from '../checks/history.ts';
import { RACE_SUBJECT } from '../subjects/race.ts';
import type { Subject } from '../subjects/subject.ts';
import { NameHasher } from './keys.ts';
import {
  CHUNKS_MAX,
  chooseSwarm,
  type ScenarioOptions,
  type Startup,
  type Swarm,
} from './swarm.ts';

/** What a client does between two operations. */
export type Pause = 'none' | 'quiesce' | 'collect' | 'offline';

/** What a client is doing: its operations, or a duty between them. */
export type Phase = 'call' | 'startup' | 'burst' | 'pause' | 'recovery' | 'sweep' | 'departure';

export interface ProgramItem {
  /** Names the item in a shrunk reproduction. */
  id: number;
  /** The clock passes the next deadline by 'expire'; 'turn' is one of `ExpirySweep`. */
  call: Call | 'walk' | 'many' | 'serve' | 'expire' | 'turn';
  after: Pause;
  /** How many remedies for a full pool have been tried for the call. */
  remedies?: number;
}

/** A client dies after this many pieces of a phase; in 'call', of its whole life. */
export interface Crash {
  phase: Phase;
  pieces: number;
}

export interface ClientPlan {
  items: ProgramItem[];
  /** How many operations it keeps in flight. */
  lanes: number;
  /** How it dies, then how the client that continues its program dies, and so on. */
  crashes: Crash[];
  /** Steps of the run between its death and the time at which another client notices. */
  noticedAfter: number;
  /** Whether a new client continues its program. */
  replaced: boolean;
  /** Whether it leaves the pool at the end of its program. */
  leaves: boolean;
  /** Whether it repeats a write that found the pool full. */
  insists: boolean;
  /**
   * When it goes idle with fewer items left than this, it stands still until others have declared
   * it dead. That is outside of the pool's rules only for a client that is not idle.
   */
  freezesBelow: number;
  /** After how many polls or attempts it gives up a call; 0: as in production, in effect never. */
  haste: number;
}

export interface Scenario {
  seed: number;
  subject: Subject;
  parameters: IndexParameters;
  /** Chunks of the pool; with few of them it becomes full. */
  chunks: number;
  keys: string[];
  startup: Startup;
  /** Whether some values are chained. */
  chains: boolean;
  /** Whether some records expire. */
  expires: boolean;
  clients: ClientPlan[];
  /** Steps after which the table is lost. */
  losses: number[];
  /** Steps after a crash until all operations in flight must finish. */
  settlesAfter: number;
}

const STEPS_TO_LOSS = 5000;
/** The seed's stream that decides which clients give up early. */
const APART = 2000;
/** The seed's stream that decides which removals expect a version. */
const COMPARED = 2001;
/** The seed's stream that decides which removals are of a sampled record. */
const SAMPLED = 2002;
/** The seed's stream that decides which records expire or are evicted. */
const LEAVING = 2003;
/** The seed's stream that decides which values have the longer of two sizes. */
const RESIZED = 2004;
/** Values of records that take 33 and 65 lines: a few state words in a chunk. */
const RESIZED_DIGITS = [2000, 4000] as const;
/** In a program whose records expire. */
const JUMPS_MAX = 4;
const TURNS_MAX = 6;
/** The most polls or attempts of a client that gives up soon. */
const ATTEMPTS_MAX = 60;

/** A value that does not fit one block with any key of a scenario. */
const CHAINED_BYTES = SLOT_UNITS_MAX * UNIT_BYTES;

/** The share of sampled removals that remove everything in the table, where an index can. */
const TOGETHER_SHARE = 0.5;

/** Everything but the schedule, from one seed. */
export function scenarioOf(seed: number, options: ScenarioOptions = {}): Scenario {
  const prng = Prng.fromSeed(seed).fork(1);
  const apart = Prng.fromSeed(seed).fork(APART);
  const compared = Prng.fromSeed(seed).fork(COMPARED);
  const sampled = Prng.fromSeed(seed).fork(SAMPLED);
  const leaving = Prng.fromSeed(seed).fork(LEAVING);
  const resized = Prng.fromSeed(seed).fork(RESIZED);
  const { subject = RACE_SUBJECT } = options;
  const swarm = chooseSwarm(prng, { apart, compared, leaving, resized }, { ...options, subject });
  const { crowded } = swarm;
  const parameters = { ...subject.parameters(prng, crowded), ...options.shape };
  const places = subject.placesOfKey(parameters);
  const keyCount = crowded ? places + prng.below(4) : 2 + prng.below(5);
  const keys = chooseKeys(prng, keyCount, subject, parameters, crowded);
  const clientCount = 2 + prng.below(3);
  const length = crowded ? 6 + prng.below(14) : 3 + prng.below(12);
  const id = { last: 0 };
  const clients = Array.from({ length: clientCount }, (_, client) => {
    const items = Array.from({ length }, () => chooseItem(prng, keys.length, ++id.last, swarm));
    for (const { call } of items) {
      const isRemoval = typeof call === 'object' && call.kind === 'remove';
      if (isRemoval && compared.below(100) < swarm.compares) call.expected = LAST_SEEN;
      if (isRemoval && sampled.below(100) < swarm.evictions) {
        call.sampled = sampled.nextDouble();
        call.together = call.sampled < TOGETHER_SHARE;
      }
    }
    const isHasty = swarm.haste > 0 && apart.below(100) < swarm.haste;
    const haste = isHasty ? 1 + apart.below(ATTEMPTS_MAX) : 0;
    return { items, ...chooseFate(prng, swarm, client, length), haste };
  });
  if (swarm.resizes > 0) chooseSizes(resized, clients, swarm);
  if (swarm.expiries > 0) chooseExpiries(leaving, clients, swarm, id);
  const { startup } = swarm;
  // A new table needs memory: a full pool has none until a client deletes.
  const chunks = swarm.losses > 0 ? CHUNKS_MAX : swarm.chunks;
  const chains = swarm.chains > 0;
  const settlesAfter = prng.below(300);
  const losses = Array.from({ length: swarm.losses }, () => prng.below(STEPS_TO_LOSS)).sort(
    (a, b) => a - b,
  );
  const expires = swarm.expiries > 0;
  const plan = { startup, chains, expires, clients, losses, settlesAfter };
  return { seed, subject, parameters, chunks, keys, ...plan };
}

/** Chunks of either size become empty when their records change to the other one. */
function chooseSizes(prng: Prng, clients: readonly ClientPlan[], { resizes }: Swarm): void {
  for (const { call } of clients.flatMap(({ items }) => items)) {
    if (typeof call !== 'object' || (call.kind !== 'write' && call.kind !== 'modify')) continue;
    const digits = RESIZED_DIGITS[prng.below(100) < resizes ? 1 : 0];
    call.value = call.value.replace(/^0+/, '').padStart(digits, '0');
  }
}

/** Which writes have times, and where in the programs the clock jumps and sweeps have turns. */
function chooseExpiries(
  prng: Prng,
  clients: readonly ClientPlan[],
  { expiries }: Swarm,
  id: { last: number },
): void {
  for (const { call } of clients.flatMap(({ items }) => items)) {
    if (typeof call !== 'object' || call.kind !== 'write') continue;
    if (prng.below(100) < expiries) {
      // The checker knows a record that slides by its value, which a chained one has later.
      const slides = prng.below(3) === 0 && call.value.length < CHAINED_BYTES;
      call.times = slides ? 'sliding' : 'deadline';
    } else if (prng.below(4) === 0) call.times = 'never';
  }
  const insert = (call: 'expire' | 'turn') => {
    const { items } = clients[prng.below(clients.length)];
    items.splice(prng.below(items.length + 1), 0, { id: ++id.last, call, after: 'none' });
  };
  for (let jumps = 1 + prng.below(JUMPS_MAX); jumps > 0; jumps--) insert('expire');
  for (let turns = 1 + prng.below(TURNS_MAX); turns > 0; turns--) insert('turn');
}

function chooseItem(prng: Prng, keys: number, id: number, swarm: Swarm): ProgramItem {
  const draw = prng.below(100);
  const after = choosePause(prng, swarm);
  if (draw < swarm.walks) return { id, call: 'walk', after };
  if (draw < swarm.walks + swarm.batches) return { id, call: 'many', after };
  const serving = swarm.walks + swarm.batches + swarm.serves;
  if (draw < serving) return { id, call: 'serve', after };
  return { id, call: chooseCall(prng, keys, id, swarm), after };
}

/** The first client never dies, so that one survives. */
function chooseFate(
  prng: Prng,
  swarm: Swarm,
  client: number,
  length: number,
): Omit<ClientPlan, 'items' | 'haste'> {
  const crashes: Crash[] = [];
  while (client > 0 && crashes.length < 3 && prng.below(100) < swarm.deaths) {
    crashes.push(chooseCrash(prng, length));
  }
  const freezes = client > 0 && prng.below(100) < swarm.freezes;
  return {
    lanes: swarm.lanes > 1 ? 1 + prng.below(swarm.lanes) : 1,
    crashes,
    noticedAfter: prng.below(100) < swarm.lateNotice ? prng.below(3000) : prng.below(50),
    replaced: prng.below(100) < swarm.replacements,
    leaves: client > 0 && prng.below(100) < swarm.departures,
    insists: swarm.insists,
    freezesBelow: freezes ? 1 + prng.below(length) : 0,
  };
}

const DUTY_PHASES = ['startup', 'recovery', 'recovery', 'pause', 'sweep', 'departure'] as const;

function chooseCrash(prng: Prng, length: number): Crash {
  if (prng.below(3) > 0) return { phase: 'call', pieces: 1 + prng.below(40 * length) };
  return {
    phase: DUTY_PHASES[prng.below(DUTY_PHASES.length)],
    pieces: 1 + prng.below(prng.below(2) === 0 ? 20 : 200),
  };
}

function chooseCall(prng: Prng, keys: number, id: number, mix: Swarm): Call {
  const key = prng.below(3) === 0 ? 0 : prng.below(keys);
  const draw = prng.below(100);
  const value = String(id * 1000).padStart(chooseDigits(prng, mix), '0');
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

/**
 * Now and then a record takes more than one line: another size class, and a longer READ. Rarely it
 * takes more than a slot can say, and then a chain of two blocks: many pieces, so few of them.
 */
function chooseDigits(prng: Prng, { chains }: Swarm): number {
  if (prng.below(100) < chains) return CHAINED_BYTES + prng.below(100);
  return prng.below(5) === 0 ? 40 + prng.below(150) : 0;
}

function chooseCondition(prng: Prng): Condition {
  const draw = prng.below(10);
  if (draw < 5) return ALWAYS;
  if (draw < 8) return IF_ABSENT;
  return draw < 9 ? IF_PRESENT : IF_VERSION;
}

function choosePause(prng: Prng, { restless }: Swarm): Pause {
  if (prng.below(100) >= restless) return 'none';
  const draw = prng.below(10);
  if (draw < 3) return 'quiesce';
  return draw < 7 ? 'collect' : 'offline';
}

/**
 * Keys of which some share a fingerprint, so that candidates of other keys are met, or, in a
 * crowded table, all their places, so that it has to grow.
 */
function chooseKeys(
  prng: Prng,
  count: number,
  subject: Subject,
  parameters: IndexParameters,
  crowded: boolean,
): string[] {
  const keys: string[] = [];
  const alike = prng.below(crowded ? 6 : 2) === 0;
  // Equal suffixes make one split after another necessary.
  const suffixMask = 2 ** prng.below(4) - 1;
  const hasher = new NameHasher(parameters.seed);
  let wanted = '';
  for (let i = 0; keys.length < count; i++) {
    const name = `k${i.toString(36)}`;
    const hash = hasher.of(name);
    let likeness = '';
    if (alike) likeness += subject.fingerprint(hash);
    if (crowded) likeness += `/${hash.h1 & suffixMask}/${subject.place(hash, parameters)}`;
    if (keys.length > 0 && i < 10_000 && likeness !== wanted) continue;
    wanted = likeness;
    keys.push(name);
  }
  return keys;
}
