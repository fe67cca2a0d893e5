import assert from 'node:assert/strict';
import { test } from 'node:test';
import { attachInMemory, createInMemory } from '../../../store/places/pool-place.ts';
import { throwsCode } from '../../../store/tests/support/codes.ts';
import { endAfter, type Scope } from '../../../store/tests/support/pools.ts';
import { control } from '../../control.ts';
import { CHUNK_BYTES, CLIENTS_PER_INTENT_CHUNK, INTENT_BYTES, PoolLayout } from '../../layout.ts';
import { LocalPool } from '../../local-pool.ts';
import {
  CHUNK_FREE,
  CHUNK_INTENTS,
  CHUNK_SPAN,
  ownedWord,
  unpackChunk,
} from '../../memory/chunk-word.ts';

const SIZE = 2 * 2 ** 20;

interface Clients {
  join(): LocalPool;
}

function clients(scope: Scope): Clients {
  const { parameters, handle } = createInMemory({ size: SIZE, maxClients: 128 });
  return {
    join() {
      const { fabric, source } = attachInMemory('memory' in handle ? handle.memory : []);
      const pool = new LocalPool(fabric, parameters, source);
      pool.join('a client');
      endAfter(scope, pool, (one) => one.close());
      return pool;
    },
  };
}

function states(pool: LocalPool): number[] {
  return pool.run(pool.chunks.words()).map(([, word]) => unpackChunk(word).state);
}

test('a small pool keeps no memory for the intents of stores without locks', (t) => {
  const { parameters } = createInMemory({ size: SIZE, maxClients: 128 });
  assert.equal(new PoolLayout(parameters).reservedChunks, 1);
  const pool = clients(t).join();
  assert.deepEqual(states(pool), []);
});

test('clients of a group share a chunk, each with slots of its own; later ones find them', (t) => {
  const { join } = clients(t);
  const pools = Array.from({ length: CLIENTS_PER_INTENT_CHUNK + 1 }, join);
  const addresses = new Set<number>();
  for (const pool of pools) {
    pool.run(pool.intents.open());
    for (let slot = 0; slot < 8; slot++) addresses.add(pool.intents.address(0, slot));
  }
  assert.equal(addresses.size, 8 * pools.length);
  assert.ok([...addresses].every((address) => address % INTENT_BYTES === 0));
  assert.deepEqual(states(pools[0]), [CHUNK_INTENTS, CHUNK_INTENTS]);
  const late = join();
  for (const pool of pools) {
    const { id } = pool.membership;
    assert.equal(late.run(late.intents.locate(0, id, 3)), pool.intents.address(0, 3));
  }
  assert.equal(late.run(late.intents.locate(0, 100, 0)), 0, 'a group without a chunk');
});

test('of two clients that take a chunk at once one gives its own back', (t) => {
  const { join } = clients(t);
  const [one, other] = [join(), join()];
  const [opening, second] = [one.intents.open(), other.intents.open()];
  for (let step = opening.next(); !step.done; step = opening.next()) {
    one.fabric.execute(step.value);
    const next = second.next();
    if (!next.done) other.fabric.execute(next.value);
  }
  for (let step = second.next(); !step.done; step = second.next()) other.fabric.execute(step.value);
  assert.deepEqual(states(one).sort(), [CHUNK_FREE, CHUNK_INTENTS]);
  assert.equal(one.run(one.intents.locate(0, other.membership.id, 0)), other.intents.address(0, 0));
});

test('a client may die after any step of taking a chunk: no chunk is lost', (t) => {
  for (let steps = 0; ; steps++) {
    const { join } = clients(t);
    const [dead, next] = [join(), join()];
    const opening = dead.intents.open();
    let isDone = false;
    for (let i = 0; i < steps && !isDone; i++) {
      const step = opening.next();
      isDone = step.done === true;
      if (!step.done) dead.fabric.execute(step.value);
    }
    next.membership.liveness = ({ id }) => (id === dead.membership.id ? 'gone' : 'alive');
    next.recoverGone();
    next.run(next.intents.open());
    const words = next.run(next.chunks.words()).map(([, word]) => unpackChunk(word));
    assert.ok(words.every(({ owner }) => owner === 0));
    assert.equal(words.filter(({ state }) => state === CHUNK_INTENTS).length, 1);
    assert.ok(words.every(({ state }) => state === CHUNK_INTENTS || state === CHUNK_FREE));
    if (isDone) break;
  }
});

test('without room for its slots a client is refused', (t) => {
  const pool = clients(t).join();
  const word = ownedWord(CHUNK_SPAN, 60, 0, pool.allocator.client);
  throwsCode('SW_POOL_FULL', () => {
    for (;;) pool.run(pool.chunks.take(word, word));
  });
  throwsCode('SW_POOL_FULL', () => pool.run(pool.intents.open()));
});

test('a word that names no chunk of intent slots is damage', (t) => {
  const { join } = clients(t);
  const pool = join();
  const word = pool.layout.intentChunkWord(0, 0);
  for (const chunk of [1n, BigInt(SIZE / CHUNK_BYTES), 2n ** 60n, BigInt.asUintN(64, -1n)]) {
    pool.run(control.store(word, chunk));
    throwsCode('SW_POOL_CORRUPT', () => pool.run(join().intents.open()));
  }
});
