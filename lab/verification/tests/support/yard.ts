import assert from 'node:assert/strict';
import { hasCode } from '../../../../src/errors.ts';
import type { Index } from '../../../../src/indexes/contract.ts';
import { sweep } from '../../../../src/indexes/sweep.ts';
import type { PartOrder, Parts } from '../../../../src/indexes/traversal/parts.ts';
import type { ClientRow } from '../../../../src/pool/clients/membership.ts';
import { currentThread } from '../../../../src/pool/clients/thread-identity.ts';
import { CHUNK_BYTES } from '../../../../src/pool/layout.ts';
import { LocalPool } from '../../../../src/pool/local-pool.ts';
import { BLOCK_FREE, nextState } from '../../../../src/pool/memory/block-state.ts';
import {
  CHUNK_BLOCKS,
  CHUNK_FREE,
  holdsBlocks,
  isFor,
  unpackChunk,
} from '../../../../src/pool/memory/chunk-word.ts';
import { recycleEmptied } from '../../../../src/pool/memory/emptied-chunks.ts';
import { SizeClass } from '../../../../src/pool/memory/size-class.ts';
import { formatSuperblock } from '../../../../src/pool/superblock.ts';
import {
  type Address,
  Batch,
  type Operation,
  offsetOf,
  Scratch,
  UNIT_BYTES,
} from '../../../../src/verbs/index.ts';
import { AdversaryFabric, AdversaryMemory } from '../../schedules/adversary.ts';

/** The first one holds the tables. */
const CHUNKS = 5;
const PARAMETERS = {
  regionBytes: CHUNKS * CHUNK_BYTES,
  regionsMax: 1,
  clientsMax: 8,
  createdAt: 0,
  poolId: 0,
};
export const STORE = 1;
/** 17 of them fill a chunk, and 8 of the long ones. */
export const SHORT = 240;
export const LONG = 480;
const THREAD = currentThread();
/** An operation that takes more doorbells is considered endless. */
const DOORBELLS_MAX = 20_000;
/** Rounds of idling: more than enough for all epochs to pass. */
const ROUNDS = 3;

interface Held {
  readonly address: Address;
  readonly units: number;
  /** Every byte of its first and last lines. A block that overlaps shares one of these lines. */
  readonly filling: number;
}

export function newYardMemory(): AdversaryMemory {
  return new AdversaryMemory(1, PARAMETERS.regionBytes);
}

/** How a client marks a block as current, as HStore's server does before it links a record. */
export type Marking = (state: number) => number;

/** A client that puts blocks into the slots of a yard. */
export class Worker {
  readonly pool: LocalPool;
  readonly #yard: Yard;
  /** It issues no verbs any more. */
  dead = false;
  /** Other clients believe that it is dead, but it goes on. */
  expelled = false;
  marking: Marking = nextState;

  constructor(pool: LocalPool, yard: Yard) {
    this.pool = pool;
    this.#yard = yard;
  }

  /** Fills a block and links it in place of another one, in an announced epoch. */
  *put(
    slot: number,
    units: number,
    { marks = false, filling = this.#yard.nextFilling() } = {},
  ): Operation<void> {
    const { allocator } = this.pool;
    const address = yield* allocator.allocate(STORE, units);
    const line = new Scratch(UNIT_BYTES);
    line.u8.fill(filling);
    const batch = new Batch();
    for (const at of linesOf(address, units)) batch.write(at, UNIT_BYTES, line, 0);
    yield batch;
    if (marks) yield* this.#mark(allocator.stateByteOf(address, units));
    yield pause();
    this.#link(slot, { address, units, filling });
  }

  *#mark(at: Address): Operation<void> {
    const word = new Scratch(8);
    yield new Batch().read(at - (at % 8), 8, word, 0);
    word.u8[at % 8] = this.marking(word.u8[at % 8]);
    yield new Batch().write(at, 1, word, at % 8);
  }

  *remove(slot: number): Operation<void> {
    yield pause();
    this.#link(slot, undefined);
  }

  #link(slot: number, block: Held | undefined): void {
    const { slots } = this.#yard;
    const old = slots.get(slot);
    if (block === undefined) slots.delete(slot);
    else slots.set(slot, block);
    if (old !== undefined) this.pool.reclamation.retire(old.address, old.units, STORE);
  }

  /** As LocalPool between two operations. */
  *quiesce(): Operation<void> {
    yield* this.pool.reclamation.quiesce();
    yield* this.pool.recyclingOwn();
  }

  *idle(): Operation<void> {
    yield* this.pool.reclamation.goOffline();
    yield* this.pool.collectIdle();
  }

  /** Recycles the chunks that it finds empty, whichever client emptied them. */
  *recycle(): Operation<void> {
    yield* this.pool.reclamation.quiesce();
    yield* recycleEmptied(this.pool, CHUNKS);
    yield* this.idle();
  }

  sweep(): Operation<number> {
    return sweep(this.pool, this.#yard.index);
  }

  /** At once. */
  run<T>(operation: Operation<T>): T {
    const under = new UnderWay(this, operation);
    return under.finish() as T;
  }
}

/** An operation of a client that others interrupt. */
export class UnderWay<T> {
  readonly worker: Worker;
  readonly #operation: Operation<T>;
  #value: T | undefined;
  done = false;

  constructor(worker: Worker, operation: Operation<T>) {
    this.worker = worker;
    this.#operation = operation;
  }

  get over(): boolean {
    return this.done || this.worker.dead;
  }

  step(): void {
    if (this.done || this.worker.dead) return;
    const next = this.#operation.next();
    if (next.done) {
      this.done = true;
      this.#value = next.value;
    } else this.worker.pool.fabric.execute(next.value);
  }

  steps(count: number): this {
    for (let i = 0; i < count; i++) this.step();
    return this;
  }

  finish(): T | undefined {
    for (let i = 0; !this.done && !this.worker.dead; i++) {
      assert.ok(i < DOORBELLS_MAX, 'an operation does not end');
      this.step();
    }
    return this.#value;
  }
}

/** A slot of a yard at a time. */
class YardParts implements Parts, PartOrder {
  readonly order = this;
  readonly cursor = 0;
  readonly #slots: Yard['slots'];
  readonly #left: number[];
  #held: Held | undefined;

  constructor(slots: Yard['slots']) {
    this.#slots = slots;
    this.#left = [...slots.keys()].sort((a, b) => b - a);
  }

  get done(): boolean {
    return this.#left.length === 0;
  }

  *read(): Operation<void> {
    yield pause();
    this.#held = this.#slots.get(this.#left[this.#left.length - 1]);
  }

  pass(): void {
    this.#left.pop();
  }

  eachSlot(): void {}

  eachBlock(visit: (address: Address) => void): void {
    if (this.#held) visit(this.#held.address);
  }
}

/**
 * A small pool with slots in place of an index, so that its clients only run the steps of
 * allocation, reclamation and sweeps. At the end each block must be linked once or be free.
 */
export class Yard {
  readonly memory: AdversaryMemory;
  readonly slots = new Map<number, Held>();
  readonly workers: Worker[] = [];
  /** Walks its slots, one in a doorbell. */
  readonly index: Index;
  #fillings = 0;

  constructor(memory = newYardMemory()) {
    memory.reset();
    this.memory = memory;
    memory.put(0, formatSuperblock(PARAMETERS));
    const { slots } = this;
    this.index = {
      records: { catalog: STORE },
      newRequest: () => undefined,
      parts: () => new YardParts(slots),
    } as unknown as Index;
  }

  client(): Worker {
    const number = this.workers.length;
    const thread = { ...THREAD, tid: 1 + number };
    const fabric = new AdversaryFabric(this.memory, number);
    const pool = new LocalPool(fabric, PARAMETERS, this.memory.source, thread);
    pool.membership.liveness = (row) => (this.#isDead(row) ? 'gone' : 'alive');
    pool.join(`c${number}`);
    pool.run(pool.membership.nameStore(STORE, true));
    const worker = new Worker(pool, this);
    this.workers.push(worker);
    return worker;
  }

  #isDead({ id, incarnation }: ClientRow): boolean {
    return this.workers.some(({ dead, expelled, pool: { membership } }) => {
      return (dead || expelled) && membership.id === id && membership.incarnation === incarnation;
    });
  }

  /** From 1 on, as the states of blocks. */
  nextFilling(): number {
    return 1 + (this.#fillings++ % 250);
  }

  /** A chunk of short blocks that one client has filled and another has emptied. */
  emptied(filler: Worker, emptier: Worker): number {
    const slots = Array.from({ length: 17 }, (_, i) => i);
    filler.run(filler.quiesce());
    for (const slot of slots) filler.run(filler.put(slot, SHORT));
    const held = this.slots.get(slots[0]) as Held;
    filler.run(filler.idle());
    emptier.run(emptier.quiesce());
    for (const slot of slots) emptier.run(emptier.remove(slot));
    emptier.run(emptier.pool.reclamation.goOffline());
    emptier.run(emptier.pool.reclamation.collect());
    return emptier.pool.chunks.chunkOf(held.address);
  }

  /** Makes the count too high, as a client does that dies between claiming and counting. */
  overcount(chunk: number, blocks: number): void {
    const [{ pool }] = this.workers;
    const at = pool.layout.chunkWord(chunk);
    const word = new Scratch(8);
    word.i64[0] = BigInt.asIntN(64, this.memory.word(at) + (BigInt(blocks) << 48n));
    this.memory.put(at, word.u8.slice(0, 8));
  }

  get #living(): Worker[] {
    return this.workers.filter(({ dead, expelled }) => !dead && !expelled);
  }

  /** For some time all living clients do what idle clients do. */
  rest(workers = this.#living): void {
    for (let round = 0; round < ROUNDS; round++) {
      for (const worker of workers) worker.run(worker.idle());
    }
  }

  /** Nothing is lost, no block has two holders, and all memory can be used. */
  audit(when: string): void {
    this.rest();
    const [one] = this.#living;
    one.pool.recoverGone();
    one.run(one.sweep());
    this.rest();
    this.#account(when);
    this.#fill(one, when);
    this.#checkFillings(when);
  }

  #account(when: string): void {
    const [{ pool }] = this.#living;
    const left = new Map([...this.slots.values()].map((held) => [held.address, held]));
    for (const [chunk, packed] of pool.run(pool.chunks.words())) {
      const word = unpackChunk(packed);
      const isUsual = word.state === CHUNK_BLOCKS || word.state === CHUNK_FREE;
      assert.ok(isUsual, `${when}: chunk ${chunk} stays in state ${word.state}`);
      if (!holdsBlocks(word.state)) continue;
      const sizeClass = new SizeClass(STORE, word.units);
      const start = pool.layout.chunkStart(chunk);
      for (let i = 0; i < sizeClass.blocks; i++) {
        const address = sizeClass.blockAt(start, i);
        const isLinked = left.get(address)?.units === word.units;
        if (isLinked) left.delete(address);
        const isFree = this.memory.region(0).u8[offsetOf(start) + i] === BLOCK_FREE;
        if (isFree !== isLinked) continue;
        const what = isFree ? 'in use and free' : 'lost';
        assert.fail(`${when}: block ${i} of chunk ${chunk} is ${what}`);
      }
    }
    assert.equal(left.size, 0, `${when}: blocks of chunks that serve something else are in use`);
  }

  /** Allocates all that is left, as a client that fills a pool does. */
  #fill(worker: Worker, when: string): void {
    const room = this.#room(worker);
    let taken = 0;
    worker.run(worker.quiesce());
    for (let vain = 0; vain < 2; ) {
      try {
        worker.run(worker.put(1000 + taken, SHORT));
        taken++;
      } catch (error) {
        if (!hasCode(error, 'SW_POOL_FULL')) throw error;
        worker.run(worker.pool.reclaiming());
        worker.run(worker.quiesce());
        vain++;
      }
    }
    assert.equal(taken, room, `${when}: blocks that can be allocated`);
  }

  /** How many short blocks find room. */
  #room({ pool }: Worker): number {
    const { blocks } = new SizeClass(STORE, SHORT);
    const chunks = new Map<number, Held[]>();
    for (const held of this.slots.values()) {
      const chunk = pool.chunks.chunkOf(held.address);
      chunks.set(chunk, [...(chunks.get(chunk) ?? []), held]);
    }
    let room = blocks * (CHUNKS - pool.layout.reservedChunks - chunks.size);
    for (const held of chunks.values()) if (held[0].units === SHORT) room += blocks - held.length;
    return room;
  }

  #checkFillings(when: string): void {
    const [{ pool }] = this.#living;
    const { u8 } = this.memory.region(0);
    for (const [slot, { address, units, filling }] of this.slots) {
      const isFilling = (byte: number) => byte === filling;
      const word = pool.run(pool.chunks.wordOf(pool.chunks.chunkOf(address)));
      assert.ok(isFor(STORE, units, word), `${when}: the block of slot ${slot} stands nowhere`);
      for (const at of linesOf(address, units)) {
        const isWhole = u8.subarray(offsetOf(at), offsetOf(at) + UNIT_BYTES).every(isFilling);
        assert.ok(isWhole, `${when}: the block of slot ${slot} has two holders`);
      }
    }
  }
}

function linesOf(address: Address, units: number): Address[] {
  return [...new Set([0, units - 1])].map((line) => address + line * UNIT_BYTES);
}

function pause(): Batch {
  return new Batch().pause(1, new Scratch(8));
}
