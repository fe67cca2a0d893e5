import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { Prng } from '../../random/prng.ts';
import type { Decide, StatesRead } from '../../store/internal-calls.ts';
import { type JobHost, JobTable, STEPS } from '../job-table.ts';
import { extendJob, type JobState, jobIn, type KeyState, takeJob } from '../jobs.ts';

/**
 * Random schedules of a job queue. Each client runs the methods of `JobTable`, which wait at every
 * step; a seeded scheduler chooses whose step is next. So a step may come long after its client
 * decided on it. Clients die between any two steps. The checks go by what clients were told.
 */
const LEASE_MS = 60;
const STEPS_MAX = 900;
const KEYS = ['a', 'b'];

interface Pending {
  readonly client: number;
  run(): void;
}

interface Client {
  readonly id: number;
  readonly table: JobTable;
  isBusy: boolean;
}

/** A job that a client holds as far as it knows. */
interface Holding {
  readonly client: Client;
  readonly name: string;
  readonly id: string;
  readonly token: number;
  until: number;
}

class JobWorld {
  readonly prng: Prng;
  readonly records = new Map<string, string>();
  readonly gone = new Set<number>();
  readonly pending: Pending[] = [];
  readonly steps: typeof STEPS;
  now = 1_000_000;
  failure: string | undefined;
  /** Jobs whose addition was reported, those ever stored, and those completed or removed. */
  readonly added = new Set<string>();
  readonly stored = new Set<string>();
  readonly ended = new Map<string, number>();
  /** Jobs whose completion is under way, or was when its client died: they may have ended. */
  readonly ending = new Set<string>();
  holdings: Holding[] = [];
  #clients = 0;
  #jobs = 0;

  constructor(seed: number, steps: typeof STEPS) {
    this.prng = Prng.fromSeed(seed);
    this.steps = steps;
  }

  newClient(): Client {
    const id = ++this.#clients;
    return { id, table: new JobTable(this.#hostOf(id), 'q', this.steps), isBusy: false };
  }

  newJob(): string {
    return `j${++this.#jobs}`;
  }

  fail(what: string): void {
    this.failure ??= what;
  }

  chance(share: number): boolean {
    return this.prng.nextDouble() < share;
  }

  #hostOf(client: number): JobHost {
    const wait = <T>(step: () => T): Promise<T> =>
      new Promise((resolve) => {
        this.pending.push({ client, run: () => resolve(step()) });
      });
    return {
      changeState: (name, decide) => wait(() => this.#change(client, name, decide)),
      readStates: (from, to, limit) => wait(() => this.#read(from, to, limit)),
    };
  }

  #change<T>(client: number, name: string, decide: Decide<T>): T {
    const text = this.records.get(name);
    const look = { now: this.now, self: client, isGone: (one: number) => this.gone.has(one) };
    const { next, result } = decide(text === undefined ? undefined : JSON.parse(text), look);
    if (next === null) this.records.delete(name);
    else if (next !== undefined) this.records.set(name, JSON.stringify(next));
    if (next) this.#note(name, next);
    return result;
  }

  /** A job with a key is in the queue once its key names it. */
  #note(name: string, next: unknown): void {
    if (name.includes(':key:')) this.stored.add((next as KeyState).id);
    else if ((next as JobState).phase !== 'adding') this.stored.add(idIn(name));
  }

  #read(from: string, to: string, limit: number): StatesRead {
    const names = [...this.records.keys()].filter((name) => name >= from && name < to).sort();
    const states = names.slice(0, limit).map((name) => ({ name, state: this.state(name) }));
    return { now: this.now, isBounded: false, states };
  }

  state(name: string): unknown {
    return JSON.parse(this.records.get(name) ?? 'null') ?? undefined;
  }

  /** Runs one step, perhaps of a client that waits for long. */
  async step(): Promise<void> {
    const { pending } = this;
    if (pending.length > 0) pending.splice(this.prng.below(pending.length), 1)[0].run();
    await turn();
  }

  kill(client: Client): void {
    this.gone.add(client.id);
    const left = this.pending.filter((one) => one.client !== client.id);
    this.pending.splice(0, this.pending.length, ...left);
    this.holdings = this.holdings.filter((one) => one.client !== client);
  }
}

const idIn = (name: string) => /:([^:.]*)\.\d+$/.exec(name)?.[1] ?? '';

function newState(attempts: number): JobState {
  const phase = 'waiting';
  return { phase, data: '1', priority: 0, attempts, last: attempts, backoffMs: 20, taken: 0 };
}

async function add(world: JobWorld, { table }: Client): Promise<void> {
  const id = world.newJob();
  const began = world.now;
  const due = (await table.now()) + (world.chance(0.3) ? world.prng.below(100) : 0);
  const name = table.places.job(0, due, id, 0);
  if (world.chance(0.5)) {
    await table.insert(name, newState(2));
    world.added.add(id);
    return;
  }
  const key = KEYS[world.prng.below(KEYS.length)];
  const outcome = await table.insertUnique(name, newState(2), key);
  if (outcome.added) world.added.add(id);
  if (outcome.added) return;
  if (!world.stored.has(outcome.id)) world.fail(`${outcome.id} is said to be there, and never was`);
  if ((world.ended.get(outcome.id) ?? began) < began) {
    world.fail(`${outcome.id} is said to be there after its end`);
  }
}

async function take(world: JobWorld, client: Client): Promise<void> {
  const { from, to } = client.table.places.range('job');
  const { now, states } = await client.table.read(from, to, 6);
  const due = states.filter(({ name }) => client.table.places.read(name).time <= now);
  if (due.length === 0) return;
  const { name } = due[world.prng.below(due.length)];
  const asked = world.now;
  const job = await client.table.take(name, LEASE_MS);
  if (typeof job === 'string') return;
  const id = idIn(name);
  checkAlone(world, id, undefined, 'handed out');
  if (world.ended.has(id)) world.fail(`${id} is handed out after its end`);
  world.holdings.push({ client, name, id, token: job.taken, until: asked + LEASE_MS });
}

/** No client but that of `own` holds the job, as far as it knows. */
function checkAlone(world: JobWorld, id: string, own: Holding | undefined, what: string): void {
  const isOther = (one: Holding) => one !== own && one.id === id && one.until > world.now;
  const other = world.holdings.find(isOther);
  if (other !== undefined) world.fail(`${id} is ${what} while ${other.client.id} holds it`);
}

/** Ends the job, extends its lease or sleeps on it. */
async function work(world: JobWorld, client: Client, holding: Holding): Promise<void> {
  const { name, id, token } = holding;
  if (world.chance(0.3)) {
    const asked = world.now;
    if (!(await client.table.extend(name, token, LEASE_MS))) return;
    checkAlone(world, id, holding, 'extended');
    holding.until = asked + LEASE_MS;
    return;
  }
  world.holdings = world.holdings.filter((one) => one !== holding);
  if (world.chance(0.5)) {
    await client.table.fail(name, { token, error: 'no', retryMs: undefined });
    return;
  }
  world.ending.add(id);
  const isDone = await client.table.complete(name, token);
  world.ending.delete(id);
  if (!isDone) return;
  checkAlone(world, id, holding, 'completed');
  end(world, id);
}

function end(world: JobWorld, id: string): void {
  if (world.ended.has(id)) world.fail(`${id} ends twice`);
  world.ended.set(id, world.now);
}

async function bury(world: JobWorld, { table }: Client): Promise<void> {
  const { from, to } = table.places.range('dead');
  const { states } = await table.read(from, to, 6);
  if (states.length === 0) return;
  const { name, state } = states[world.prng.below(states.length)];
  const job = jobIn(state, name);
  if (job?.phase !== 'waiting') {
    if (job !== undefined) await table.continue(name, job);
  } else if (world.chance(0.5)) await table.revive(name);
  else if (await table.remove(name)) end(world, idIn(name));
}

async function act(world: JobWorld, client: Client): Promise<void> {
  client.isBusy = true;
  const own = world.holdings.find((one) => one.client === client);
  const lot = world.prng.nextDouble();
  if (own !== undefined && lot < 0.7) await work(world, client, own);
  else if (lot < 0.75) await take(world, client);
  else if (lot < 0.9) await add(world, client);
  else await bury(world, client);
  client.isBusy = false;
}

/** One key, one job: of those that can still be taken. */
function checkKeys(world: JobWorld): void {
  const holders = new Map<string, string>();
  for (const [name, text] of world.records) {
    if (!name.includes(':job:')) continue;
    const { key, phase, to = '' }: JobState = JSON.parse(text);
    const counts = phase === 'waiting' || phase === 'held' || phase === 'moving';
    if (key === undefined || !counts || to.includes(':dead:')) continue;
    const id = idIn(name);
    if ((holders.get(key) ?? id) !== id) world.fail(`two jobs have the key ${key}`);
    holders.set(key, id);
  }
}

/** What went wrong in a schedule; undefined when nothing did. */
async function scheduleFails(seed: number, steps = STEPS): Promise<string | undefined> {
  const world = new JobWorld(seed, steps);
  const clients = Array.from({ length: 5 }, () => world.newClient());
  for (let step = 0; step < STEPS_MAX && world.failure === undefined; step++) {
    world.now += world.chance(0.02) ? 2 * LEASE_MS : world.prng.below(6);
    const i = world.prng.below(clients.length);
    if (world.chance(0.01)) {
      world.kill(clients[i]);
      clients[i] = world.newClient();
    } else if (!clients[i].isBusy) {
      // An invariant that a step finds broken is a failure, too.
      act(world, clients[i]).catch((error) => world.fail(String(error)));
    }
    await world.step();
    checkKeys(world);
  }
  for (const client of clients) world.kill(client);
  return world.failure ?? (await drained(world));
}

/** A new client finishes everything. Then each job that was added has ended, and none is left. */
async function drained(world: JobWorld): Promise<string | undefined> {
  const client = world.newClient();
  for (let round = 0; round < 2000 && world.failure === undefined; round++) {
    world.now += 1000;
    if ([...world.records.keys()].every((name) => name.includes(':key:'))) break;
    client.isBusy = true;
    const steps = round % 2 === 0 ? finishOne(world, client) : bury(world, client);
    const done = steps.catch((error) => world.fail(String(error))).then(() => true);
    for (let isDone = false; !isDone; ) {
      await world.step();
      isDone = await Promise.race([done, turn(false)]);
    }
  }
  const lost = [...world.added].filter((id) => !world.ended.has(id) && !world.ending.has(id));
  if (lost.length > 0) world.fail(`${lost} were added and are lost`);
  const jobs = [...world.records.keys()].filter((name) => !name.includes(':key:'));
  if (jobs.length > 0) world.fail(`${jobs} are left`);
  if (world.ended.size < 5) world.fail('hardly any job ended');
  return world.failure;
}

async function finishOne(world: JobWorld, client: Client): Promise<void> {
  await take(world, client);
  const own = world.holdings.find((one) => one.client === client);
  if (own === undefined) return;
  world.holdings = [];
  if (await client.table.complete(own.name, own.token)) end(world, own.id);
}

const SEEDS = Array.from({ length: 60 }, (_, i) => i + 1);
/** Some bugs show in few schedules. */
const MORE_SEEDS = Array.from({ length: 1500 }, (_, i) => i + 1);

test('random schedules: no job is lost, doubled or ended twice; keys are unique', async () => {
  for (const seed of SEEDS) assert.equal(await scheduleFails(seed), undefined, `seed ${seed}`);
});

const PLANTED: Readonly<Record<string, Partial<typeof STEPS>>> = {
  'a job is taken while its holder lives': {
    takeJob: (state, look, name, places, leaseMs, hasKey) =>
      takeJob(state, { ...look, now: look.now + 20 }, name, places, leaseMs, hasKey),
  },
  'a late holder completes': {
    completeJob: (state, name) => STEPS.completeJob(state, name, jobIn(state, name)?.taken ?? 0),
  },
  'a late holder extends': {
    extendJob: (state, look, name, _, leaseMs) =>
      extendJob(state, look, name, jobIn(state, name)?.taken ?? 0, leaseMs),
  },
  'an arriving job is taken for a waiting one': {
    arrive: (state, name, from, job, isDead, copy) => {
      const change = STEPS.arrive(state, name, from, job, isDead, copy);
      const next = change.next as JobState | undefined;
      return next === undefined ? change : { ...change, next: { ...next, phase: 'waiting' } };
    },
  },
  'any copy is confirmed': {
    confirm: (state, name) => STEPS.confirm(state, name, jobIn(state, name)?.copy ?? ''),
  },
  'the first copy may be replaced': {
    choose: (state, name, copy) => {
      const job = jobIn(state, name);
      if (job?.phase !== 'moving' || copy === undefined) return { result: undefined };
      return { result: copy, next: { ...job, copy } };
    },
  },
  'a mover leaves without choosing': {
    arrive: () => ({ result: 'none' }),
  },
  'an unchosen copy stays': { discard: () => ({ result: false }) },
  'a key stays with the place that its job left': { moveKey: () => ({ result: false }) },
  'a late mover takes the key back': {
    moveKey: (state, _name, _from, to) => {
      if (state === undefined) return { result: false };
      return { result: true, next: { ...(state as object), place: to } };
    },
  },
  'any job frees the key': {
    freeKey: (state) => (state === undefined ? { result: false } : { result: true, next: null }),
  },
  'an adding job is taken without its key': {
    keyNames: () => ({ result: true }),
  },
  'an adding job with its key is removed': {
    keyNames: () => ({ result: false }),
  },
  'a key is claimed from a job that has moved on': {
    replaceKey: (_, __, ___, claim) => ({ result: true, next: claim }),
  },
  'an adding job counts as a waiting one': {
    insertJob: (state, job) => STEPS.insertJob(state, { ...job, phase: 'waiting' }),
  },
  'a key is claimed over another': {
    claimKey: (_, __, claim) => ({ result: claim, next: claim }),
  },
};

for (const [what, planted] of Object.entries(PLANTED)) {
  test(`canary: ${what}`, async () => {
    for (const seed of MORE_SEEDS) {
      if ((await scheduleFails(seed, { ...STEPS, ...planted })) !== undefined) return;
    }
    assert.fail('the schedules do not catch it');
  });
}
