import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Exploration, Explorer, type Model } from '../explorer.ts';
import { INVOKE, LOAD, RETURN, STORE, type Step, type StepId } from '../trace.ts';

type Instruction = [kind: number, word: number];

/** Straight-line threads; remembers which value every LOAD saw. */
class Threads implements Model {
  readonly #threads: readonly (readonly Instruction[])[];
  readonly #fails: (seen: string) => boolean;
  readonly outcomes = new Map<string, number>();
  readonly cut = false;
  #at: number[] = [];
  #memory = new Map<number, string>();
  #seen: string[] = [];
  #history: string[] = [];

  constructor(threads: readonly (readonly Instruction[])[], fails = (_: string) => false) {
    this.#threads = threads;
    this.#fails = fails;
  }

  begin(): void {
    this.#at = this.#threads.map(() => 0);
    this.#memory = new Map();
    this.#seen = this.#threads.map(() => '');
    this.#history = [];
  }

  enabled(): StepId[] {
    return this.#at.flatMap((at, i) => (at < this.#threads[i].length ? [i * 100 + at] : []));
  }

  perform(id: StepId): Step {
    const thread = Math.floor(id / 100);
    const at = this.#at[thread]++;
    const [kind, word] = this.#threads[thread][at];
    if (kind === STORE) this.#memory.set(word, `${thread}.${at}`);
    else if (kind === LOAD) this.#seen[thread] += ` ${this.#memory.get(word) ?? '-'}`;
    else this.#history.push(`${kind === INVOKE ? '(' : ')'}${thread}`);
    return { after: at > 0 ? [id - 1] : [], words: [word], kinds: [kind] };
  }

  /** The final memory, what was seen, and the real-time order. */
  verdict(): string | undefined {
    const real = this.#history.join('');
    const outcome = `${[...this.#memory].sort()}|${this.#seen}`;
    this.outcomes.set(outcome, (this.outcomes.get(outcome) ?? 0) + 1);
    return this.#fails(`${outcome}|${real}`) ? outcome : undefined;
  }
}

function runAll(model: Model): Exploration {
  const exploration = new Explorer(model).run();
  for (;;) {
    const { done, value } = exploration.next();
    if (done) return value;
  }
}

const explore = (threads: Instruction[][]) => {
  const model = new Threads(threads);
  return { ...runAll(model), outcomes: model.outcomes.size };
};

/** All interleavings, without any reduction. */
function outcomesByBruteForce(threads: Instruction[][]): number {
  const model = new Threads(threads);
  const visit = (prefix: StepId[]): void => {
    model.begin();
    for (const id of prefix) model.perform(id);
    const enabled = model.enabled();
    if (enabled.length === 0) model.verdict();
    for (const id of enabled) visit([...prefix, id]);
  };
  visit([]);
  return model.outcomes.size;
}

test('independent steps need one schedule', () => {
  const threads: Instruction[][] = [0, 1, 2, 3].map((i) => [
    [STORE, i],
    [LOAD, i],
    [STORE, i],
  ]);
  assert.equal(explore(threads).schedules, 1);
});

test('writers of one word come in every order', () => {
  for (const [n, orders] of [
    [2, 2],
    [3, 6],
    [4, 24],
  ]) {
    const threads: Instruction[][] = Array.from({ length: n }, () => [[STORE, 7]]);
    const result = explore(threads);
    assert.ok(result.exhausted);
    assert.equal(result.schedules, orders);
  }
});

test('each reader comes before or after one writer, whatever the other readers do', () => {
  const readers: Instruction[][] = Array.from({ length: 5 }, () => [[LOAD, 1]]);
  assert.equal(explore([[[STORE, 1]], ...readers]).schedules, 2 ** 5);
});

test('only what returns before another is invoked is told apart', () => {
  const call: Instruction[] = [
    [INVOKE, 0],
    [RETURN, 0],
  ];
  // Overlapping, or one after the other, or the other way round.
  assert.equal(explore([call, call]).schedules, 3);
});

test('reduction loses no outcome of random programs', () => {
  let state = 12345;
  const below = (n: number) => {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0;
    return (state >>> 16) % n;
  };
  let reduced = 0;
  for (let round = 0; round < 150; round++) {
    const threads = Array.from({ length: 2 + below(2) }, () =>
      Array.from({ length: 1 + below(3) }, (): Instruction => [below(2), below(2)]),
    );
    const result = explore(threads);
    assert.ok(result.exhausted);
    assert.equal(result.outcomes, outcomesByBruteForce(threads), JSON.stringify(threads));
    if (result.redundant === 0) reduced++;
  }
  assert.ok(reduced > 75);
});

test('a failure carries a schedule that replays it', () => {
  // Dekker without a fence would let both threads see nothing; here some see the other's store.
  const threads: Instruction[][] = [
    [
      [STORE, 0],
      [LOAD, 1],
    ],
    [
      [STORE, 1],
      [LOAD, 0],
    ],
  ];
  const model = new Threads(threads, (seen) => seen.includes('1.0, 0.0'));
  const { failure } = runAll(model);
  assert.ok(failure);
  model.begin();
  for (const id of failure.schedule) model.perform(id);
  assert.equal(model.verdict(), failure.text);
});

test('the search tells after every execution how far it is', () => {
  const threads: Instruction[][] = Array.from({ length: 4 }, () => [[STORE, 7]]);
  const counts: number[] = [];
  for (const { schedules, exhausted } of new Explorer(new Threads(threads)).run()) {
    counts.push(schedules);
    assert.equal(exhausted, false);
  }
  assert.deepEqual(
    counts,
    Array.from({ length: 24 }, (_, i) => i + 1),
  );
});
