import assert from 'node:assert/strict';
import { ALWAYS } from '../../../../src/indexes/contract.ts';
import { createStore } from '../../../../src/indexes/kinds.ts';
import { openRace, RACE, type RaceIndex } from '../../../../src/indexes/race/race.ts';
import type { RaceRequest } from '../../../../src/indexes/race/request.ts';
import { sweep } from '../../../../src/indexes/sweep.ts';
import { currentThread } from '../../../../src/pool/clients/thread-identity.ts';
import { blocksPerChunk, CHUNK_BYTES, stateMapBytes } from '../../../../src/pool/layout.ts';
import { LocalPool } from '../../../../src/pool/local-pool.ts';
import { BLOCK_FREE } from '../../../../src/pool/memory/block-state.ts';
import { CHUNK_BLOCKS, CHUNK_FREE, unpackChunk } from '../../../../src/pool/memory/chunk-word.ts';
import { formatSuperblock } from '../../../../src/pool/superblock.ts';
import { type Address, type Batch, UNIT_BYTES } from '../../../../src/verbs/index.ts';
import { AdversaryFabric, AdversaryMemory } from '../../schedules/adversary.ts';

const PARAMETERS = {
  regionBytes: 64 * CHUNK_BYTES,
  regionsMax: 1,
  clientsMax: 8,
  createdAt: 0,
  poolId: 0,
};
const SHAPE = { associativity: 2, groups: 3, initialDepth: 0, maxDepth: 8, seed: 7 };

export interface Client {
  pool: LocalPool;
  index: RaceIndex;
  /** Serves its calls one after the other. */
  request: RaceRequest;
}

export function newStageMemory(): AdversaryMemory {
  return new AdversaryMemory(1, PARAMETERS.regionBytes);
}

/** Does the next piece of a client's operation; what it returned, if that was the last one. */
export function step<T>({ pool }: Client, operation: Iterator<Batch, T>): T | undefined {
  const next = operation.next();
  if (next.done) return next.value;
  pool.fabric.execute(next.value);
  return undefined;
}

/** Clients of one small table that are moved, and killed, by hand. */
export class Stage {
  readonly memory: AdversaryMemory;
  readonly #dead = new Set<number>();
  readonly #root: number;
  #clients = 0;

  /** In new memory, or in that of another stage that is not needed any more. */
  constructor(memory = newStageMemory()) {
    memory.reset();
    this.memory = memory;
    this.memory.put(0, formatSuperblock(PARAMETERS));
    const pool = this.#join();
    const entry = pool.run(createStore(pool, 's', RACE, SHAPE));
    this.#root = entry.root;
    pool.close();
  }

  #join(): LocalPool {
    const number = this.#clients++;
    const fabric = new AdversaryFabric(this.memory, number);
    const thread = { ...currentThread(), tid: 1 + number };
    const pool = new LocalPool(fabric, PARAMETERS, this.memory.source, thread);
    pool.membership.liveness = ({ id }) => (this.#dead.has(id) ? 'gone' : 'alive');
    pool.join(`c${number}`);
    return pool;
  }

  client(): Client {
    const pool = this.#join();
    const index = pool.run(openRace(pool, SHAPE, 1, this.#root));
    return { pool, index, request: index.newRequest() };
  }

  kill({ pool }: Client): void {
    this.#dead.add(pool.membership.id);
  }

  /** The next client that takes the row is alive. */
  revive(row: number): void {
    this.#dead.delete(row);
  }

  /** As the store does: nothing is in flight, the dead are recovered, then it sweeps. */
  sweep({ pool, index }: Client): number {
    pool.recoverGone();
    return pool.betweenOperations(() => sweep(pool, index)) ?? 0;
  }

  put({ pool, index, request }: Client, key: string, value = 'value'): void {
    index.table.records.encode(request, key, value, 1000);
    pool.enter();
    pool.run(index.write(request, ALWAYS));
    pool.exit();
  }

  remove({ pool, index, request }: Client, key: string): void {
    request.setKey(key, SHAPE.seed);
    pool.enter();
    pool.run(index.remove(request));
    pool.exit();
  }

  /** The client goes idle, as when its event loop has turned. */
  rest({ pool }: Client): void {
    pool.betweenOperations(() => pool.reclamation.goOffline());
  }

  valueOf({ pool, index, request }: Client, key: string): string | undefined {
    request.setKey(key, SHAPE.seed);
    pool.enter();
    const isThere = pool.run(index.search(request));
    pool.exit();
    const { memory: found, valueAt: at, valueBytes: bytes } = request.found;
    return isThere ? Buffer.from(found.u8.subarray(at, at + bytes)).toString() : undefined;
  }

  /** No block is in the caches of two clients. */
  assertApart(clients: readonly Client[], when: string): void {
    const blocks = clients.flatMap(({ pool }) => {
      return [...pool.allocator.classes()].flatMap(({ cache }) => cache);
    });
    assert.equal(new Set(blocks).size, blocks.length, when);
  }

  /** Where the record of a key stands. */
  addressOf({ pool, index, request }: Client, key: string): Address {
    request.setKey(key, SHAPE.seed);
    if (!pool.run(index.search(request))) throw new Error(`${key} is absent`);
    return request.foundAddress;
  }

  epochOf({ pool }: Client): bigint {
    return this.memory.word(pool.membership.epochWord);
  }

  /** Chunks that are used for something. */
  usedChunks({ pool }: Client): number {
    const words = pool.run(pool.chunks.words()).map(([, word]) => unpackChunk(word));
    return words.filter(({ state }) => state !== CHUNK_FREE).length;
  }

  /** Blocks that are not free, of whomsoever. */
  claimedBlocks({ pool }: Client): number {
    let claimed = 0;
    for (const [chunk, word] of pool.run(pool.chunks.words())) {
      const { state, units } = unpackChunk(word);
      if (state !== CHUNK_BLOCKS) continue;
      const start = pool.layout.chunkStart(chunk);
      const map = this.memory.region(0).u8.subarray(start, start + blocksPerChunk(units));
      for (const byte of map) if (byte !== BLOCK_FREE) claimed++;
    }
    return claimed;
  }

  /** Whether a block of `units` lines is marked as claimed. */
  isClaimed({ pool, index }: Client, address: Address, units: number): boolean {
    const start = pool.layout.chunkStart(pool.chunks.chunkOf(address));
    const { blocks } = pool.allocator.sizeClass(index.table.catalog, units);
    const at = (address - start - stateMapBytes(blocks)) / (units * UNIT_BYTES);
    return this.memory.region(0).u8[start + at] !== BLOCK_FREE;
  }
}
