import assert from 'node:assert/strict';
import { test } from 'node:test';
import { poolFull } from '../../../fabrics/shared/region.ts';
import type { Store, Value } from '../../../store/api.ts';
import { LocalAttachment } from '../../../store/local/local-client.ts';
import { SharedStore } from '../../../store/local/shared-store.ts';
import { createInMemory } from '../../../store/places/pool-place.ts';
import { openStore } from '../../../store/store-in-pool.ts';
import { clientByHand } from '../../../store/tests/support/by-hand.ts';
import { throwsCode } from '../../../store/tests/support/codes.ts';
import { endAfter, keepOpen, type Scope } from '../../../store/tests/support/pools.ts';
import { LocalPool } from '../../local-pool.ts';
import type { PoolMemory } from '../chunk-memory.ts';
import { CHUNK_SPAN, ownedWord, RECYCLED, unpackChunk } from '../chunk-word.ts';
import { ChunkTable } from '../chunks.ts';

const MIB = 2 ** 20;
const PAGE_BYTES = 4096;

/** A file system below a pool, of so many pages: a page that was given stays with its place. */
class SmallFileSystem implements PoolMemory {
  readonly #pages = new Set<string>();
  readonly #limit: number;

  constructor(bytes: number) {
    this.#limit = bytes / PAGE_BYTES;
  }

  extend(): void {}

  reserve(region: number, offset: number, bytes: number): void {
    for (let at = offset; at < offset + bytes; at += PAGE_BYTES) {
      const page = `${region}:${at}`;
      if (this.#pages.has(page)) continue;
      if (this.#pages.size === this.#limit) throw poolFull('the test has no pages left');
      this.#pages.add(page);
    }
  }
}

function pooled(t: Scope, bytes: number) {
  const { fabric, parameters, source } = createInMemory({ size: 64 * MIB, maxClients: 8 });
  const memory = new SmallFileSystem(bytes);
  const client = () => {
    const pool = new LocalPool(fabric, parameters, memory);
    pool.join('test');
    endAfter(t, pool, (open) => open.close());
    return pool;
  };
  return { client, source };
}

/** A store of a client of its own. */
function storeOf(t: Scope, pool: LocalPool, index: 'race' | 'chime' | 'shard' | 'hopscotch') {
  const opened = pool.run(
    openStore(pool, { index: index === 'race' ? { kind: 'race', groups: 16 } : index }),
  );
  const settings = {
    name: 'default',
    url: '',
    handle: '',
    lifetime: undefined,
    onClose: () => pool.close(),
  };
  const encodings = { keys: 'auto', values: 'auto' } as const;
  return keepOpen(
    t,
    new SharedStore<Value>(new LocalAttachment(pool, opened.store), opened, {
      ...settings,
      ...encodings,
    }),
  );
}

/** Puts until the pool is full; returns how many bytes of values it took. */
function fill(store: Store<Value>, name: string, bytes: number): number {
  const value = 'v'.repeat(bytes);
  let stored = 0;
  throwsCode('SW_POOL_FULL', () => {
    for (; ; stored++) store.set(`${name} ${stored}`, value);
  });
  for (let i = 0; i < stored; i++) assert.equal(String(store.get(`${name} ${i}`)).length, bytes);
  return stored * bytes;
}

/** A client gives back what it has emptied when its event loop has turned. */
async function idle(pool: LocalPool): Promise<void> {
  for (let turns = 0; turns < 400; turns++) {
    const words = pool.run(pool.chunks.words());
    if (words.filter(([, word]) => word === RECYCLED).length > 20) return;
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
  assert.fail('an idle client keeps what it has emptied');
}

for (const index of ['race', 'chime', 'shard', 'hopscotch'] as const) {
  test(`${index}: what was cleared serves values of any size`, async (t) => {
    const { client } = pooled(t, 8 * MIB);
    const pool = client();
    const one = storeOf(t, pool, index);
    const other = storeOf(t, client(), index);
    for (const [round, bytes] of [1000, 5000, 200, 60_000].entries()) {
      const store = round % 2 === 0 ? one : other;
      assert.ok(fill(store, `round ${round}`, bytes) > MIB, `values of ${bytes} bytes`);
      store.clear();
      await idle(pool);
    }
    one.close();
    other.close();
    const later = storeOf(t, client(), index);
    assert.ok(fill(later, 'later', 3000) > MIB, 'after everybody has left');
  });
}

test('a chunk whose memory is refused stays unused, and free ones with memory are taken', (t) => {
  const { client } = pooled(t, 2 * MIB);
  const { chunks, run } = withRun(client());
  const word = ownedWord(CHUNK_SPAN, 60, 0, { owner: 9, incarnation: 9 });
  const taken: number[] = [];
  const takeAll = () => {
    for (;;) taken.push(run(chunks.take(word, word)).chunk);
  };
  throwsCode('SW_POOL_FULL', takeAll);
  const words = run(chunks.words()).length;
  throwsCode('SW_POOL_FULL', takeAll);
  assert.equal(run(chunks.words()).length, words, 'no chunk was taken for nothing');
  // A span of which only the first chunk was ever touched, as a directory's, is given back.
  for (const chunk of taken.slice(2, 5)) run(chunks.release(chunk, word));
  const before = taken.length;
  throwsCode('SW_POOL_FULL', takeAll);
  assert.deepEqual(new Set(taken.slice(before)), new Set(taken.slice(2, 5)));
});

test('free chunks without memory do not hide those with memory', (t) => {
  const { client } = pooled(t, 2 * MIB);
  const { chunks, run } = withRun(client());
  const span = ownedWord(CHUNK_SPAN, 60, 0, { owner: 9, incarnation: 9 });
  const word = ownedWord(CHUNK_SPAN, 60, 0, { owner: 9, incarnation: 9 });
  const taken: number[] = [];
  const takeAll = () => {
    for (;;) taken.push(run(chunks.take(word, word)).chunk);
  };
  // Address space of which nothing was touched, as of a directory that never grew.
  const first = run(chunks.takeSpan(span, 20, 0));
  throwsCode('SW_POOL_FULL', takeAll);
  for (let i = 0; i < 20; i++) run(chunks.release(first + i, span));
  run(chunks.release(taken[0], word));
  assert.equal(run(chunks.take(word, word)).chunk, taken[0]);
  throwsCode('SW_POOL_FULL', takeAll);
});

test('a span takes recycled chunks when memory for unused ones is refused', (t) => {
  const { client } = pooled(t, 2 * MIB);
  const { chunks, run } = withRun(client());
  const span = ownedWord(CHUNK_SPAN, 60, 0, { owner: 9, incarnation: 9 });
  const word = ownedWord(CHUNK_SPAN, 60, 0, { owner: 9, incarnation: 9 });
  const taken: number[] = [];
  throwsCode('SW_POOL_FULL', () => {
    for (;;) taken.push(run(chunks.take(word, word)).chunk);
  });
  for (const chunk of taken.slice(0, 3)) run(chunks.release(chunk, word));
  throwsCode('SW_POOL_FULL', () => run(chunks.takeSpan(span, 4, 1)));
  assert.equal(run(chunks.takeSpan(span, 3, 1)), taken[0]);
});

test('memory is taken before a chunk has an owner, who may die before it is', (t) => {
  const { pool } = clientByHand(t);
  const word = ownedWord(CHUNK_SPAN, 60, 0, { owner: 9, incarnation: 9 });
  const owners: number[] = [];
  const memory: PoolMemory = {
    extend() {},
    reserve(region, offset) {
      const chunk = pool.layout.chunkAt(region, offset);
      owners.push(
        unpackChunk(pool.run(pool.chunks.words()).find(([n]) => n === chunk)?.[1] ?? 0n).owner,
      );
    },
  };
  const chunks = new ChunkTable(pool.layout, memory);
  const { chunk } = pool.run(chunks.take(word, word));
  pool.run(chunks.release(chunk, word));
  pool.run(chunks.take(word, word));
  assert.deepEqual(owners, [0, 0]);
});

function withRun(pool: LocalPool) {
  return { chunks: pool.chunks, run: pool.run.bind(pool) as LocalPool['run'] };
}
