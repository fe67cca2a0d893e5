import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sweep } from '../../../src/indexes/sweep.ts';
import type { AdversaryMemory } from '../schedules/adversary.ts';
import { type Client, newStageMemory, Stage, step } from './support/stage.ts';

/** 17 of them fill a chunk. */
const VALUE_BYTES = 15_000;
/** In two chunks, and in three: of so many an owner gives back an empty one by itself. */
const FILLS = [24, 40];
/** A sweep that is begun and not over after so many doorbells does not end. */
const DOORBELLS_MAX = 10_000;

interface Cast {
  /** Owns chunks that are empty, and is idle. */
  owner: Client;
  /** Asks for them. */
  taker: Client;
}

function emptied(stage: Stage, records = FILLS[0]): Cast {
  const cast = { owner: stage.client(), taker: stage.client() };
  const keys = Array.from({ length: records }, (_, i) => `k${i}`);
  for (const key of keys) stage.put(cast.owner, key, 'v'.repeat(VALUE_BYTES));
  stage.rest(cast.owner);
  for (const key of keys) stage.remove(cast.taker, key);
  stage.rest(cast.taker);
  return cast;
}

test('a sweep takes empty chunks of a client that sleeps', () => {
  const stage = new Stage();
  const { taker } = emptied(stage);
  const before = stage.usedChunks(taker);
  assert.ok(stage.sweep(taker) > 0);
  assert.ok(stage.usedChunks(taker) < before, `${before} chunks`);
});

test('a client that only reads gives its empty chunks back when it is asked', () => {
  const stage = new Stage();
  const { owner, taker } = emptied(stage);
  const before = stage.usedChunks(taker);
  const sweeping = sweep(taker.pool, taker.index);
  let brought: number | undefined;
  for (let i = 0; brought === undefined && i < DOORBELLS_MAX; i++) {
    stage.valueOf(owner, 'k1');
    if (i % 8 === 0) stage.rest(owner);
    brought = step(taker, sweeping);
  }
  assert.ok(brought !== undefined && brought > 0);
  assert.ok(stage.usedChunks(taker) < before, `${before} chunks`);
});

test('a sweep takes empty chunks that no client owns, of other stores, too', () => {
  const stage = new Stage();
  const { owner, taker } = emptied(stage);
  owner.pool.close();
  const before = stage.usedChunks(taker);
  const ofAnother = Object.create(taker.index, { catalog: { value: 2 } });
  assert.ok(stage.sweep({ ...taker, index: ofAnother }) > 0);
  assert.ok(stage.usedChunks(taker) < before, `${before} chunks`);
});

/** What goes wrong in one client; none: the protocol as it is. */
type Bug = (cast: Cast) => void;

/**
 * What the owner does when it has woken up: it writes and sleeps on; it sleeps between writes; or
 * it writes all the time.
 */
const HABITS = ['naps', 'is restless', 'is busy'] as const;
type Habit = (typeof HABITS)[number];

class Wakened {
  readonly #stage: Stage;
  readonly #cast: Cast;
  readonly #written: string[] = [];
  readonly #habit: Habit;
  readonly #records: number;

  constructor(memory: AdversaryMemory, habit: Habit, records: number, plant: Bug = () => {}) {
    this.#stage = new Stage(memory);
    this.#habit = habit;
    this.#records = records;
    this.#cast = emptied(this.#stage, records);
    plant(this.#cast);
  }

  /** The owner wakes after so many doorbells of the sweep. Returns whether the sweep was over. */
  wakeAfter(steps: number, dies: boolean): boolean {
    const { taker, owner } = this.#cast;
    const sweeping = sweep(taker.pool, taker.index);
    let done = false;
    for (let i = 0; i < steps && !done; i++) done = step(taker, sweeping) !== undefined;
    const wasOver = done;
    const third = this.#stage.client();
    if (dies && !done) {
      this.#stage.kill(taker);
      third.pool.recoverGone();
    }
    for (let i = 0; !(dies && i > 0) && !done && i < DOORBELLS_MAX; i++) {
      this.#live(i);
      done = step(taker, sweeping) !== undefined;
    }
    if (this.#habit === 'is busy') for (let i = 0; i < this.#records; i++) this.#write(owner);
    this.#stage.rest(owner);
    if (dies) this.#stage.sweep(third);
    this.#look(third, dies ? [owner, third] : [owner, taker, third]);
    return wasOver;
  }

  /** The owner's part between two doorbells of the sweep. */
  #live(turn: number): void {
    const { owner } = this.#cast;
    if (turn < (this.#habit === 'naps' ? 1 : this.#records)) this.#write(owner);
    if (this.#habit === 'naps' || (this.#habit === 'is restless' && turn % 16 < 4)) {
      this.#stage.rest(owner);
    }
  }

  #write(client: Client): void {
    const key = `${client.pool.membership.id} ${this.#written.length} `;
    this.#stage.put(client, key, longValue(key));
    this.#written.push(key);
  }

  #look(third: Client, claimants: Client[]): void {
    for (let i = 0; i < 20; i++) for (const client of claimants) this.#write(client);
    for (const key of this.#written) {
      assert.equal(this.#stage.valueOf(third, key), longValue(key), `the owner ${this.#habit}`);
    }
    this.#stage.assertApart(claimants, `the owner ${this.#habit}`);
  }
}

function longValue(key: string): string {
  return key.padEnd(VALUE_BYTES, key);
}

function wakeEverywhere(habit: Habit, dies: boolean, plant?: Bug): number {
  const memory = newStageMemory();
  let steps = 0;
  for (const records of FILLS) {
    steps = 0;
    while (!new Wakened(memory, habit, records, plant).wakeAfter(steps, dies)) steps++;
  }
  return steps;
}

for (const habit of HABITS) {
  for (const dies of [false, true]) {
    const taker = dies ? ', the taker dies' : '';
    test(`the owner ${habit} at any moment of the taking${taker}: no chunk has two owners`, () => {
      const steps = wakeEverywhere(habit, dies);
      assert.ok(steps > 20, `${steps} doorbells`);
    });
  }
}

const BUGS: Record<string, Bug> = {
  'an owner that does not answer': ({ owner }) => {
    owner.pool.allocator.answerRequests = function* () {};
  },
  'a taker that does not count its request': ({ taker }) => {
    taker.pool.reclamation.countRequest = function* () {};
  },
  'a taker that does not look at the chunks again': ({ taker }) => {
    const { allocator } = taker.pool;
    const emptyOf = allocator.emptyOf.bind(allocator);
    let first: Set<number> | undefined;
    allocator.emptyOf = function* (chunks) {
      first ??= yield* emptyOf(chunks);
      return first;
    };
  },
  'a taker that does not wait': ({ taker }) => {
    const { reclamation } = taker.pool;
    const readEpoch = reclamation.readEpoch.bind(reclamation);
    const countRequest = reclamation.countRequest.bind(reclamation);
    let later = 0;
    reclamation.countRequest = function* () {
      yield* countRequest();
      later = 10;
    };
    // Now each look at the epoch, of a client that is idle because it waits, seems late enough.
    reclamation.readEpoch = function* () {
      if (later > 0) later += 10;
      return (yield* readEpoch()) + (reclamation.online ? 0 : later);
    };
  },
};

for (const [bug, plant] of Object.entries(BUGS)) {
  test(`the canary is caught: ${bug}`, () => {
    const wakeAll = () => HABITS.map((habit) => wakeEverywhere(habit, false, plant));
    assert.throws(wakeAll, { code: /ERR_ASSERTION|SW_POOL_CORRUPT/ });
  });
}
