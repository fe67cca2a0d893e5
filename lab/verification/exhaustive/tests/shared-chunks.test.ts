import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CHUNK_EMPTIED, packChunk } from '../../../../src/pool/memory/chunk-word.ts';
import { recycleEmptied } from '../../../../src/pool/memory/emptied-chunks.ts';
import type { Operation } from '../../../../src/verbs/index.ts';
import { SHORT, STORE, type Worker, type Yard } from '../../tests/support/yard.ts';
import { type Exploration, Explorer } from '../explorer.ts';
import { type YardCrash, YardModel, type YardPart } from './support/yard-model.ts';

/** Two clients that have announced an epoch; one has emptied a chunk of the other. */
function online(yard: Yard): Worker[] {
  const workers = [yard.client(), yard.client(), yard.client()];
  const [a, b] = workers;
  yard.emptied(a, b);
  for (const worker of [a, b]) worker.run(worker.pool.reclamation.quiesce());
  return workers;
}

function* claims(worker: Worker): Operation<void> {
  yield* worker.put(50 + worker.pool.membership.id, SHORT);
}

function* frees({ pool: { allocator } }: Worker): Operation<void> {
  const address = yield* allocator.allocate(STORE, SHORT);
  allocator.discard(STORE, SHORT, address);
  yield* allocator.surrender();
}

function* recycles({ pool }: Worker): Operation<void> {
  yield* recycleEmptied(pool, 1);
}

function explore(parts: readonly YardPart[], crash?: YardCrash): Exploration & { crashes: number } {
  const model = new YardModel(parts, online, crash);
  const search = new Explorer(model).run();
  let step = search.next();
  while (!step.done) step = search.next();
  return { ...step.value, crashes: model.crashes };
}

const PAIRS: Record<string, readonly [YardPart, YardPart]> = {
  'claims, and another recycles': [claims, recycles],
  'claims and frees, and another recycles': [frees, recycles],
  'recycles, as another does': [recycles, recycles],
  'claims, as another does': [claims, claims],
};

for (const [name, parts] of Object.entries(PAIRS)) {
  test(`a client ${name}: every schedule`, () => {
    const { failure, exhausted, schedules } = explore(parts);
    assert.equal(failure?.text, undefined);
    assert.ok(exhausted && schedules >= 2, `${schedules} schedules`);
  });

  test(`a client ${name}: every schedule, and either dies after any change`, () => {
    let deaths = 0;
    for (let client = 0; client < 2; client++) {
      for (let after = 1; ; after++) {
        const { failure, exhausted, crashes } = explore(parts, { client, after });
        assert.equal(failure?.text, undefined, `client ${client} dies after ${after} changes`);
        assert.ok(exhausted);
        if (crashes === 0) break;
        deaths += crashes;
      }
    }
    assert.ok(deaths > 2, `${deaths} deaths`);
  });
}

/** Trusts the count. */
function* recyclesByCount({ pool }: Worker): Operation<void> {
  const { allocator, chunks, membership, reclamation } = pool;
  yield* chunks.survey.read();
  for (const chunk of chunks.survey.emptied) {
    const word = yield* chunks.wordOf(chunk);
    const emptying = { ...word, state: CHUNK_EMPTIED, owner: membership.id };
    if (!(yield* chunks.swap(chunk, packChunk(word), emptying))) continue;
    allocator.noteEmptied(chunk, packChunk(yield* chunks.wordOf(chunk)));
    reclamation.retireEmptied(chunk, STORE);
  }
}

test('the canary is caught: a recycler that looks at the count and locks nothing', () => {
  const { failure } = explore([claims, recyclesByCount]);
  assert.match(failure?.text ?? '', /chunk|block/);
});
