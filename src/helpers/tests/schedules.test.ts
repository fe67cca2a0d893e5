import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { StateChange, StateLook } from '../../store/internal-calls.ts';
import { givePermit, permitsIn, renewPermit, takePermit } from '../permits.ts';
import { keep, land, lead } from '../single-flight.ts';

/**
 * Random schedules of the protocols of the helpers. Clients take turns at one state; each turn is
 * one compare-and-set, as in a store. Clients die between any two turns, sleep, and come again as
 * new ones. What holds is checked by what clients believe, not by the state.
 */
class World {
  readonly #random: () => number;
  readonly gone = new Set<number>();
  now = 1_000_000;
  #state: unknown;
  #keepUntil = Number.POSITIVE_INFINITY;
  #clients = 0;

  constructor(seed: number) {
    let x = seed | 1;
    this.#random = () => {
      x ^= x << 13;
      x ^= x >>> 17;
      x ^= x << 5;
      return (x >>> 0) / 2 ** 32;
    };
  }

  chance(share: number): boolean {
    return this.#random() < share;
  }

  below(end: number): number {
    return Math.floor(this.#random() * end);
  }

  newClient(): number {
    return ++this.#clients;
  }

  turn<T>(self: number, decide: (state: unknown, look: StateLook) => StateChange<T>): T {
    if (this.now >= this.#keepUntil) this.#state = undefined;
    const change = decide(this.#state, {
      now: this.now,
      self,
      isGone: (client) => this.gone.has(client),
    });
    if (change.next === null) this.#state = undefined;
    else if (change.next !== undefined) {
      this.#state = JSON.parse(JSON.stringify(change.next));
      this.#keepUntil = change.keepUntil ?? Number.POSITIVE_INFINITY;
    }
    return change.result;
  }
}

interface Member {
  client: number;
  token: number | undefined;
  /** Until when it believes that it holds a permit. */
  until: number;
}

type Protocol = {
  take: typeof takePermit;
  renew: typeof renewPermit;
  give: typeof givePermit;
};

const SOUND: Protocol = { take: takePermit, renew: renewPermit, give: givePermit };
const TTL_MS = 50;

/** What went wrong in a schedule of so many steps; undefined when nothing did. */
function permitsFail(seed: number, permits: number, protocol: Protocol): string | undefined {
  const world = new World(seed);
  const members: Member[] = Array.from({ length: 5 }, () => ({
    client: world.newClient(),
    token: undefined,
    until: 0,
  }));
  let [last, held] = [0, 0];
  for (let step = 0; step < 2000; step++) {
    world.now += world.chance(0.01) ? 5_000_000 : world.below(12);
    const member = members[world.below(members.length)];
    const believes = ({ token, until }: Member) => token !== undefined && until > world.now;
    const { client } = member;
    if (world.chance(0.05)) {
      world.gone.add(client);
      Object.assign(member, { client: world.newClient(), token: undefined });
    } else if (member.token === undefined) {
      const wish = { permits, ttlMs: TTL_MS };
      const token = world.turn(client, (state, look) => protocol.take(state, look, wish));
      if (token === undefined) continue;
      held++;
      if (token <= last) return `token ${token} after ${last} at step ${step}`;
      last = token;
      Object.assign(member, { token, until: world.now + TTL_MS });
    } else {
      const { token } = member;
      const renews = world.chance(0.6);
      const isHeld = world.turn(client, (state, look) =>
        renews ? protocol.renew(state, look, token, TTL_MS) : protocol.give(state, look, token),
      );
      if (believes(member) && !isHeld) return `a permit was taken away at step ${step}`;
      if (renews && isHeld) member.until = world.now + TTL_MS;
      else member.token = undefined;
    }
    const holders = members.filter(believes).length;
    if (holders > permits) return `${holders} of ${permits} permits are held at step ${step}`;
  }
  return held > 50 ? undefined : 'hardly any permit was taken';
}

const SEEDS = Array.from({ length: 60 }, (_, i) => i + 1);

test('random schedules: never more holders than permits, and tokens rise', () => {
  for (const permits of [1, 3]) {
    for (const seed of SEEDS) {
      assert.equal(permitsFail(seed, permits, SOUND), undefined, `seed ${seed}`);
    }
  }
});

const PLANTED: Readonly<Record<string, Protocol>> = {
  'a holder that slept lists itself again': {
    ...SOUND,
    renew: (state, look, token, ttlMs) => {
      const { last, holders } = permitsIn(state);
      const others = holders.filter(([one]) => one !== token);
      const next = { last, holders: [...others, [token, look.self, look.now + ttlMs]] };
      return { result: true, next };
    },
  },
  'a holder is dropped before its time': {
    ...SOUND,
    take: (state, look, options) => takePermit(state, { ...look, now: look.now + 20 }, options),
  },
  'a release frees whoever holds': {
    ...SOUND,
    give: (state) => ({ result: true, next: { last: permitsIn(state).last, holders: [] } }),
  },
  'tokens begin again when the state was forgotten': {
    ...SOUND,
    take: (state, look, options) => takePermit(state, { ...look, now: 0 }, options),
  },
};

for (const [what, protocol] of Object.entries(PLANTED)) {
  test(`canary: ${what}`, () => {
    const found = SEEDS.map((seed) => permitsFail(seed, 1, protocol)).filter(Boolean);
    assert.ok(found.length > 0, 'the schedules do not catch it');
  });
}

test('the holder that died is replaced without waiting for its time', () => {
  const world = new World(1);
  const wish = { permits: 1, ttlMs: 1e9 };
  const take = (client: number) =>
    world.turn(client, (state, look) => takePermit(state, look, wish));
  assert.notEqual(take(1), undefined);
  assert.equal(take(2), undefined);
  world.gone.add(1);
  assert.notEqual(take(2), undefined);
});

interface Caller {
  client: number;
  at: 'looks' | 'leads' | 'loads' | 'stores' | 'stored';
  flight: string;
  /** When its load has been begun. */
  since: number;
  /** When it was told that it may store. */
  keptAt: number;
  asleepUntil: number;
}

type Flights = {
  lead: typeof lead;
  keep: typeof keep;
  land: typeof land;
  /** When a value expires that is stored now. */
  end(keptAt: number, now: number): number;
};

const LOAD_MS = 100;
const VALUE_MS = 150;
const SOUND_FLIGHTS: Flights = { lead, keep, land, end: (keptAt) => keptAt + VALUE_MS };

/**
 * Callers of one key: how many loads ran at a time that were neither late nor of dead clients, and
 * whether a value came back that is older than one before it.
 */
function flightsFail(seed: number, flights: Flights): string | undefined {
  const world = new World(seed);
  let [loadedAt, until] = [0, 0];
  let [landed, names] = [0, 0];
  const begin = (): Caller => ({
    client: world.newClient(),
    at: 'looks',
    flight: `${++names}`,
    since: 0,
    keptAt: 0,
    asleepUntil: 0,
  });
  const callers = Array.from({ length: 6 }, begin);
  for (let step = 0; step < 3000; step++) {
    world.now += world.below(10);
    const isThere = world.now < until;
    const i = world.below(callers.length);
    const caller = callers[i];
    const { client, flight } = caller;
    if (caller.asleepUntil > world.now) continue;
    if (world.chance(0.05)) {
      caller.asleepUntil = world.now + world.below(4 * VALUE_MS);
    } else if (world.chance(0.02)) {
      world.gone.add(client);
      callers[i] = begin();
    } else if (caller.at === 'looks') {
      if (isThere) callers[i] = begin();
      else {
        const leads = world.turn(client, (state, look) =>
          flights.lead(state, look, flight, LOAD_MS),
        );
        if (leads) Object.assign(caller, { at: 'leads', since: world.now });
      }
    } else if (caller.at === 'leads') {
      caller.at = isThere ? 'stored' : 'loads';
    } else if (caller.at === 'loads') {
      const keptAt = world.turn(client, (state, look) =>
        flights.keep(state, look, flight, LOAD_MS),
      );
      if (keptAt === undefined) caller.at = 'stored';
      else Object.assign(caller, { at: 'stores', keptAt });
    } else if (caller.at === 'stores') {
      const end = flights.end(caller.keptAt, world.now);
      // As `insert` does: the value is of the first one.
      if (!isThere && end > world.now) {
        if (caller.since < loadedAt) return `an older value came back at step ${step}`;
        [loadedAt, until] = [caller.since, end];
      }
      caller.at = 'stored';
    } else {
      world.turn(client, (state) => flights.land(state, flight));
      landed++;
      callers[i] = begin();
    }
    const flying = callers.filter(
      ({ at, since }) => (at === 'leads' || at === 'loads') && world.now < since + LOAD_MS,
    );
    if (flying.length > 1) return `${flying.length} loads at a time at step ${step}`;
  }
  return landed > 20 ? undefined : 'hardly any load ended';
}

test('random schedules: one load at a time, and no older value after a newer one', () => {
  for (const seed of SEEDS) {
    assert.equal(flightsFail(seed, SOUND_FLIGHTS), undefined, `seed ${seed}`);
  }
});

const PLANTED_FLIGHTS: Readonly<Record<string, Partial<Flights>>> = {
  'a flight that any caller may land': { land: () => ({ result: true, next: null }) },
  'flights that nobody waits for': {
    lead: (_, look, flight, loadMs) => lead(undefined, look, flight, loadMs),
  },
  'a late leader stores without a look': { keep: (_, { now }) => ({ result: now }) },
  'a lifetime that begins with the write': { end: (_, now) => now + VALUE_MS },
};

for (const [what, planted] of Object.entries(PLANTED_FLIGHTS)) {
  test(`canary: ${what}`, () => {
    assert.ok(SEEDS.some((seed) => flightsFail(seed, { ...SOUND_FLIGHTS, ...planted })));
  });
}
