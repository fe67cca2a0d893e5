import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '../../../src/errors.ts';
import { SUPERBLOCK } from '../../../src/pool/layout.ts';
import { claimedIn } from '../../../src/pool/memory/block-state.ts';
import { CHUNK_EMPTIED, CHUNK_FREE, packChunk } from '../../../src/pool/memory/chunk-word.ts';
import { recycleEmptied } from '../../../src/pool/memory/emptied-chunks.ts';
import { rounds } from '../../../src/random/tests/support/rounds.ts';
import { Batch, FAA, type Operation, READ, Scratch, WRITE } from '../../../src/verbs/index.ts';
import { LONG, newYardMemory, SHORT, STORE, UnderWay, type Worker, Yard } from './support/yard.ts';

interface Cast {
  yard: Yard;
  a: Worker;
  b: Worker;
  c: Worker;
  /** A chunk that is empty. */
  chunk: number;
}

type Part = (cast: Cast) => Operation<void>;
type Event = (cast: Cast) => void;

const nothing: Event = () => {};

const longBlocks: Event = ({ yard, c }) => {
  yard.rest([c]);
  c.run(c.quiesce());
  for (let i = 0; i < 3; i++) c.run(c.put(100 + i, LONG));
  yard.rest([c]);
};

const shortBlocks: Event = ({ yard, c }) => {
  c.run(c.quiesce());
  for (let i = 0; i < 17; i++) c.run(c.put(100 + i, SHORT));
  for (let i = 0; i < 17; i++) c.run(c.remove(100 + i));
  yard.rest([c]);
};

const deathOfA: Event = ({ a, c }) => {
  a.dead = true;
  c.pool.recoverGone();
};

const deathOfB: Event = ({ b, c }) => {
  b.dead = true;
  c.pool.recoverGone();
};

/** What happens when A and B stand still. */
const EVENTS: Record<string, Event> = {
  'nothing happens': nothing,
  'C claims long blocks': longBlocks,
  'C claims short blocks and frees them': shortBlocks,
  'A dies': deathOfA,
  'B dies': deathOfB,
  'B dies, and C claims long blocks': (cast) => {
    deathOfB(cast);
    longBlocks(cast);
  },
};

/** The order in which A and B go on. */
type Ending = (a: UnderWay<void>, b: UnderWay<void>) => void;

const inTurn: Ending = (a, b) => {
  while (!a.over && !b.over) {
    a.step();
    b.step();
  }
  a.finish();
  b.finish();
};

const ENDINGS: Record<string, Ending> = {
  'in turn': inTurn,
  'A first': (a, b) => {
    a.finish();
    b.finish();
  },
  'B first': (a, b) => {
    b.finish();
    a.finish();
  },
};

/** After so many doorbells alone a sweep only waits, for WAITING doorbells. */
const WAITING_AFTER = 70;
const WAITING = 200;

interface Play {
  begin: (yard: Yard) => Cast;
  a: Part;
  b: Part;
  events?: Record<string, Event>;
  endings?: Record<string, Ending>;
  /** B stands still after every second doorbell, say. */
  stride?: number;
  /** After how many doorbells A stands still at first: a canary that none before shows. */
  from?: number;
}

/** A stands still after each doorbell, and B after each. Returns how many pairs there are. */
function play({
  begin,
  a,
  b,
  events = EVENTS,
  endings = ENDINGS,
  stride = 1,
  from = 0,
}: Play): number {
  const memory = newYardMemory();
  let pairs = 0;
  for (const [event, happen] of Object.entries(events)) {
    for (const [ending, end] of Object.entries(endings)) {
      // With a dead client all orders are the same.
      if (ending !== Object.keys(endings)[0] && /dies/.test(event)) continue;
      for (let i = from, isOver = false; !isOver; i += i < WAITING_AFTER ? 1 : WAITING) {
        for (let j = i % stride, isOtherOver = false; !isOtherOver; j += stride) {
          const yard = new Yard(memory);
          const cast = begin(yard);
          const [first, second] = [new UnderWay(cast.a, a(cast)), new UnderWay(cast.b, b(cast))];
          first.steps(i);
          second.steps(j);
          isOver = first.done;
          isOtherOver = second.done;
          happen(cast);
          end(first, second);
          yard.audit(`A after ${i} doorbells, B after ${j}, ${event}, ${ending}`);
          pairs++;
        }
      }
    }
  }
  return pairs;
}

const PASSING = { 'nothing happens': nothing };
const RIVALRY = { 'C claims long blocks': longBlocks };

const caught = { code: /ERR_ASSERTION|SW_POOL_CORRUPT/ };

/** B has emptied a chunk of A. */
function emptied(yard: Yard): Cast {
  const [a, b, c] = [yard.client(), yard.client(), yard.client()];
  return { yard, a, b, c, chunk: yard.emptied(a, b) };
}

function* claiming({ a }: Cast): Operation<void> {
  yield* a.quiesce();
  yield* a.put(50, SHORT);
  yield* a.idle();
}

function* freeing({ a }: Cast): Operation<void> {
  yield* a.quiesce();
  yield* a.put(50, SHORT);
  yield* a.remove(50);
  yield* a.idle();
  yield* a.idle();
}

function* recycling({ b }: Cast): Operation<void> {
  yield* b.recycle();
  for (let i = 0; i < 3; i++) yield* b.idle();
}

test('a client claims a block while another recycles the chunk: each stands still anywhere', () => {
  const pairs = play({ begin: emptied, a: claiming, b: recycling, stride: rounds(8, 4) });
  assert.ok(pairs > rounds(100, 200), `${pairs} pairs`);
});

test('a client frees a block while another recycles the chunk: each stands still anywhere', () => {
  const pairs = play({ begin: emptied, a: freeing, b: recycling, stride: rounds(12, 6) });
  assert.ok(pairs > rounds(100, 200), `${pairs} pairs`);
});

/** The chunk's count is too high, as when a client died before it had counted its claim. */
function overcounted(yard: Yard): Cast {
  const cast = emptied(yard);
  yard.overcount(cast.chunk, 3);
  return cast;
}

test('a client frees a block while another recycles the chunk, whose count is too high', () => {
  const pairs = play({ begin: overcounted, a: freeing, b: recycling, stride: 6 });
  assert.ok(pairs > 200, `${pairs} pairs`);
});

/** A claims by the word that the chunk had while it was empty, whatever it serves by now. */
function outdated(yard: Yard): Cast {
  const cast = emptied(yard);
  const { fabric, layout } = cast.a.pool;
  const at = layout.chunkWord(cast.chunk);
  const word = yard.memory.word(at);
  const execute = fabric.execute.bind(fabric);
  fabric.execute = (batch) => {
    execute(batch);
    for (let row = 0; row < batch.length; row++) {
      if (batch.kind[row] !== READ || batch.address[row] !== at || batch.bytes[row] !== 8) continue;
      batch.scratch[row].i64[batch.offset[row] >> 3] = word;
    }
  };
  return cast;
}

test('the canary is caught: a client that claims by the word of a chunk from before', () => {
  assert.throws(
    () => play({ begin: outdated, a: claiming, b: recycling, events: RIVALRY }),
    caught,
  );
});

/** A announces epochs while its claim is under way. */
function* restless({ a }: Cast): Operation<void> {
  yield* a.quiesce();
  const putting = a.put(50, SHORT);
  for (let next = putting.next(); !next.done; next = putting.next()) {
    yield next.value;
    for (let i = 0; i < 40; i++) yield* a.pool.reclamation.quiesce();
  }
  yield* a.idle();
}

function* recyclingForC(cast: Cast): Operation<void> {
  const { b, c } = cast;
  yield* b.recycle();
  for (let i = 0; i < 4; i++) yield* b.idle();
  yield* c.quiesce();
  yield* c.put(100, LONG);
  yield* c.idle();
}

test('the canary is caught: a client that claims beyond its epoch', () => {
  const parts = {
    begin: emptied,
    b: recyclingForC,
    events: PASSING,
    endings: { 'in turn': inTurn },
  };
  assert.ok(play({ ...parts, a: claiming, stride: 4 }) > 50);
  assert.throws(() => play({ ...parts, a: restless }), caught);
});

/** B trusts the count. */
function* recyclingByCount({ b, chunk }: Cast): Operation<void> {
  const { allocator, chunks, membership, reclamation } = b.pool;
  yield* reclamation.quiesce();
  const word = yield* chunks.wordOf(chunk);
  if (word.free < 17) return;
  const emptying = { ...word, state: CHUNK_EMPTIED, owner: membership.id };
  if (!(yield* chunks.swap(chunk, packChunk(word), emptying))) return;
  allocator.noteEmptied(chunk, packChunk(yield* chunks.wordOf(chunk)));
  reclamation.retireEmptied(chunk, STORE);
  for (let i = 0; i < 4; i++) yield* b.idle();
}

test('the canary is caught: a recycler that looks at the count and locks nothing', () => {
  assert.throws(
    () => play({ begin: emptied, a: claiming, b: recyclingByCount, events: PASSING }),
    caught,
  );
});

/** B gives the chunk away as soon as it has locked it. */
function* recyclingAtOnce({ b, chunk }: Cast): Operation<void> {
  const { pool } = b;
  let isLocked = false;
  pool.reclamation.retireEmptied = () => {
    isLocked = true;
  };
  yield* pool.reclamation.quiesce();
  yield* recycleEmptied(pool, 1);
  if (!isLocked) return;
  const batch = new Batch();
  pool.allocator.recycle(chunk, batch);
  yield batch;
}

test('the canary is caught: a recycler that does not wait for three epochs', () => {
  assert.throws(
    () => play({ begin: emptied, a: claiming, b: recyclingAtOnce, events: RIVALRY }),
    caught,
  );
});

/** An operation in which blocks are marked free before they are counted. */
function* markingFirst(cast: Cast): Operation<void> {
  const operation = freeing(cast);
  for (let next = operation.next(); !next.done; ) {
    const batch = next.value;
    if (!hasOnly(batch, FAA)) {
      yield batch;
      next = operation.next();
      continue;
    }
    for (let row = 0; row < batch.length; row++) {
      const before = cast.yard.memory.word(batch.address[row]);
      batch.scratch[row].i64[(batch.offset[row] >> 3) + 1] = before;
    }
    next = operation.next();
    if (!next.done && hasOnly(next.value, WRITE) && next.value.bytes[0] === 1) {
      yield next.value;
      yield batch;
      next = operation.next();
    } else yield batch;
  }
}

function hasOnly({ kind, length }: Batch, wanted: number): boolean {
  return length > 0 && kind.subarray(0, length).every((one) => one === wanted);
}

test('the canary is caught: a client that marks blocks free before it counts them', () => {
  assert.throws(
    () => play({ begin: overcounted, a: markingFirst, b: recycling, events: PASSING }),
    caught,
  );
});

/** A sweeps for what a dead client has left: blocks claimed ahead, and retired. B is at work. */
function bereaved(yard: Yard): Cast {
  const [a, b, c, dead] = [yard.client(), yard.client(), yard.client(), yard.client()];
  dead.run(dead.quiesce());
  for (let i = 0; i < 6; i++) dead.run(dead.put(i % 4, SHORT));
  dead.dead = true;
  b.run(b.quiesce());
  for (let i = 0; i < 2; i++) b.run(b.put(60, SHORT));
  b.run(b.put(61, SHORT));
  return { yard, a, b, c, chunk: 0 };
}

function* sweeping({ a }: Cast): Operation<void> {
  yield* a.sweep();
}

/** B moves epochs on by itself. It links and unlinks in slots that A walks, and behind them. */
function* working({ b }: Cast): Operation<void> {
  const { reclamation } = b.pool;
  yield* b.put(1, SHORT);
  yield* b.quiesce();
  yield* reclamation.collect();
  yield* b.quiesce();
  yield* b.put(0, SHORT, { marks: true });
  yield* b.remove(2);
  yield* b.quiesce();
  // All free blocks of the chunk.
  for (let i = 0; i < 12; i++) yield* b.put(70 + i, SHORT);
  yield* b.quiesce();
  yield* reclamation.collect();
  yield* b.idle();
}

/** A continues its walk alone. */
const AHEAD: Record<string, Ending> = {
  'A ahead': (a, b) => {
    a.steps(40);
    inTurn(a, b);
  },
  'A far ahead': (a, b) => {
    a.steps(80);
    inTurn(a, b);
  },
};

const SWEEP: Play = {
  begin: bereaved,
  a: sweeping,
  b: working,
  events: {
    'nothing happens': nothing,
    'C claims short blocks and frees them': shortBlocks,
    'A dies': deathOfA,
    'B dies': deathOfB,
  },
  endings: { ...AHEAD, 'in turn': inTurn },
  stride: rounds(48, 24),
};

test('a client works while another sweeps: each stands still, and dies, anywhere', () => {
  const pairs = play(SWEEP);
  assert.ok(pairs > rounds(150, 300), `${pairs} pairs`);
});

/** Bugs of the sweeper or of the client that is at work. */
const SWEEP_BUGS: Record<string, Event> = {
  'HStore forgets the round of a block that it marks': ({ b }) => {
    b.marking = (state) => (state % 4) + 1;
  },
  'a sweeper frees what was claimed since it began': ({ a }) => {
    Object.defineProperty(a.pool.allocator, 'claim', { get: () => claimedIn(62) });
  },
  'a sweeper does not wait for limbos': ({ a }) => {
    a.pool.reclamation.drainedUpTo = function* () {
      yield* [];
      return true;
    };
  },
  'a client keeps its claims in a new phase': ({ b }) => {
    const { allocator } = b.pool;
    const { begin, surrender } = allocator;
    allocator.begin = function* (phase, frontier) {
      allocator.surrender = function* () {};
      yield* begin.call(allocator, phase, frontier);
      allocator.surrender = surrender;
    };
  },
};

for (const [bug, plant] of Object.entries(SWEEP_BUGS)) {
  test(`the canary is caught: ${bug}`, () => {
    const begin = (yard: Yard) => {
      const cast = bereaved(yard);
      plant(cast);
      return cast;
    };
    assert.throws(
      () => play({ ...SWEEP, begin, events: PASSING, endings: AHEAD, stride: 1, from: 20 }),
      caught,
    );
  });
}

/** Recycles a chunk whose blocks wait for an epoch, before the sweep of them ends. */
function recycledAfter(steps: number): boolean {
  const yard = new Yard();
  const [sweeper, owner, other, laggard] = Array.from({ length: 4 }, () => yard.client());
  owner.run(owner.quiesce());
  for (let i = 0; i < 100; i++) owner.run(owner.put(i, 1));
  laggard.run(laggard.quiesce());
  for (let i = 0; i < 2; i++) laggard.run(laggard.put(200, SHORT));
  laggard.run(laggard.pool.reclamation.goOffline());
  for (let i = 0; i < 100; i++) owner.run(owner.remove(i));
  owner.run(owner.pool.reclamation.goOffline());
  const underWay = new UnderWay(sweeper, sweeper.sweep()).steps(steps);
  const wasOver = underWay.done;
  yard.rest([owner]);
  other.run(other.recycle());
  yard.rest([owner, other]);
  other.run(other.quiesce());
  // The data written there equals the state bytes that stood in its place.
  other.run(other.put(300, LONG, { filling: claimedIn(0) }));
  yard.rest([other, laggard]);
  underWay.finish();
  yard.audit(`recycled after ${steps} doorbells of the sweep`);
  return wasOver;
}

test('a chunk of suspects may be recycled during a sweep: its data are no state bytes', () => {
  let steps = 0;
  while (!recycledAfter(steps)) steps += 4;
  assert.ok(steps > 30, `${steps} doorbells`);
});

/** A sweeper is declared dead while it is idle, and goes on when another one sweeps. */
function expelledAfter(steps: number): boolean {
  const yard = new Yard();
  const { a: first, b: worker, c: second } = bereaved(yard);
  worker.run(worker.idle());
  const sweepOfFirst = new UnderWay(first, first.sweep()).steps(steps);
  const phase = yard.memory.word(SUPERBLOCK.sweepPhase);
  if (sweepOfFirst.done) return true;
  if (phase % 2n === 0n || first.pool.reclamation.online) return false;
  first.expelled = true;
  second.pool.recoverGone();
  const sweepOfSecond = new UnderWay(second, second.sweep());
  while (yard.memory.word(SUPERBLOCK.sweepPhase) === phase) sweepOfSecond.step();
  try {
    sweepOfFirst.finish();
  } catch (error) {
    if (!hasCode(error, 'SW_REVOKED')) throw error;
  }
  assert.equal(yard.memory.word(SUPERBLOCK.sweepPhase), phase + 2n, `after ${steps} doorbells`);
  sweepOfSecond.finish();
  yard.audit(`expelled after ${steps} doorbells`);
  return false;
}

test('a sweeper that was declared dead ends the phase of no other', () => {
  let steps = 0;
  while (!expelledAfter(steps)) steps += 4;
  assert.ok(steps > 20, `${steps} doorbells`);
});

test('records of a chunk that a client tries to recycle count all the time', () => {
  let steps = 0;
  for (let isOver = false; !isOver; steps++) {
    const yard = new Yard();
    const { a, b, c, chunk } = overcounted(yard);
    a.run(a.quiesce());
    a.run(a.put(50, SHORT, { marks: true }));
    a.run(a.idle());
    const address = yard.slots.get(50)?.address as number;
    assert.equal(c.pool.chunks.chunkOf(address), chunk);
    isOver = new UnderWay(b, b.recycle()).steps(steps).done;
    assert.ok(c.run(c.pool.chunks.holdsBlock(address, SHORT, STORE)), `${steps} doorbells`);
    const current: number[] = [];
    const { allocator } = c.pool;
    c.run(
      allocator.eachCurrent(STORE, function* (blocks) {
        yield* [];
        current.push(...blocks);
      }),
    );
    assert.deepEqual(current, [address], `${steps} doorbells`);
  }
  assert.ok(steps > 10, `${steps} doorbells`);
});

test('an idle client that has emptied a chunk is silent when the pool was destroyed', () => {
  const yard = new Yard();
  const { b } = emptied(yard);
  assert.ok(b.pool.allocator.hasEmptied);
  const one = new Scratch(8);
  one.i64[0] = 1n;
  yard.memory.put(SUPERBLOCK.destroyed, one.u8.slice(0, 8));
  b.run(b.pool.collectIdle());
});

test('an idle client that has emptied a chunk is silent when it was declared dead', () => {
  const yard = new Yard();
  const { b, c } = emptied(yard);
  b.expelled = true;
  c.pool.recoverGone();
  b.run(b.pool.collectIdle());
});

test('a count that dead clients have left far too high keeps no chunk from being recycled', () => {
  const yard = new Yard();
  const { a, b, c, chunk } = emptied(yard);
  a.run(a.quiesce());
  a.run(a.put(50, SHORT));
  a.run(a.idle());
  assert.equal(a.pool.chunks.chunkOf(yard.slots.get(50)?.address as number), chunk);
  for (let deaths = 0; deaths < 3; deaths++) {
    yard.overcount(chunk, 15_000);
    b.run(b.recycle());
  }
  c.run(c.quiesce());
  c.run(c.remove(50));
  yard.rest();
  b.run(b.recycle());
  yard.rest();
  assert.equal(c.run(c.pool.chunks.wordOf(chunk)).state, CHUNK_FREE);
  yard.audit('after three times 15,000');
});

test('a chunk is recycled although one block was counted, and not marked, at the last look', () => {
  const yard = new Yard();
  const [filler, slow, last] = [yard.client(), yard.client(), yard.client()];
  filler.run(filler.quiesce());
  for (let i = 0; i < 4 * 17; i++) filler.run(filler.put(i, SHORT));
  filler.run(filler.idle());
  const chunk = filler.pool.chunks.chunkOf(yard.slots.get(0)?.address as number);
  const inChunk = [...yard.slots].filter(
    ([, { address }]) => filler.pool.chunks.chunkOf(address) === chunk,
  );
  const [first, ...others] = inChunk.map(([slot]) => slot);
  slow.run(slow.quiesce());
  slow.run(slow.remove(first));
  slow.run(slow.pool.reclamation.goOffline());
  const isCounted = () => filler.run(filler.pool.chunks.wordOf(chunk)).free > 0;
  const freeing = new UnderWay(slow, slow.pool.reclamation.collect());
  while (!isCounted()) freeing.step();
  last.run(last.quiesce());
  for (const slot of others) last.run(last.remove(slot));
  last.run(last.idle());
  // It has tried to recycle the chunk, in which the slow client's block was still claimed.
  freeing.finish();
  yard.rest([filler, slow]);
  last.run(last.quiesce());
  last.run(last.pool.reclaimingAnew());
  last.run(last.quiesce());
  last.run(last.put(200, LONG));
  last.run(last.idle());
  yard.audit('after all');
});
