import { HSTORE, type HStoreIndex } from '../../../src/indexes/hstore/hstore.ts';
import type { Pair } from '../../../src/indexes/hstore/pair.ts';
import { PAIR } from '../../../src/indexes/hstore/protocol/geometry.ts';
import type { HashReply } from '../../../src/indexes/hstore/protocol/hash-messages.ts';
import { readState } from '../../../src/indexes/hstore/protocol/pair-state.ts';
import { decodeTurn, isClearing } from '../../../src/indexes/hstore/protocol/turn.ts';
import { HEADER_BYTES } from '../../../src/records/layout.ts';
import { Batch, CAS, type Operation, READ, WRITE } from '../../../src/verbs/index.ts';
import type { Canary } from '../canary.ts';
import type { FailureKind } from '../checks/failure.ts';
import type { Swarm } from '../schedules/swarm.ts';

/** A bug in HStore, planted in one client's view of every pair. */
function canary(
  name: string,
  plant: (pair: Pair) => void,
  caughtBy: FailureKind = 'linearizability',
  swarm: Partial<Swarm> = { walks: 30, serves: 0, losses: 0 },
): Canary {
  return {
    name: `HStore: ${name}`,
    caughtBy,
    scenario: { swarm },
    kind: HSTORE,
    index: (index: HStoreIndex) => {
      index.table.pairs.forEach(plant);
      return index;
    },
  };
}

type ChangeDoorbell = (batch: Batch, isDecision: (row: number) => boolean) => Iterable<Batch>;

/** The turns of a server, with something done to each doorbell before it is rung. */
function changingTurns(pair: Pair, change: ChangeDoorbell): void {
  const { hashServer, geometry } = pair;
  const isTurn = (batch: Batch) => (row: number) => {
    return batch.kind[row] === CAS && batch.address[row] === geometry.base + PAIR.turn;
  };
  const serve = hashServer.serve.bind(hashServer);
  hashServer.serve = function* (options, goesOn) {
    const steps = serve(options, goesOn);
    for (let step = steps.next(); ; step = steps.next()) {
      if (step.done) return step.value;
      yield* change(step.value, isTurn(step.value));
      yield step.value;
    }
  };
}

/** Whatever the last turn is, the server's decisions are taken to be made on its ground. */
function* decideBlindly(batch: Batch, isDecision: (row: number) => boolean): Operation<void> {
  for (let row = 0; row < batch.length; row++) {
    if (!isDecision(row)) continue;
    yield new Batch().read(batch.address[row], 8, batch.scratch[row], batch.offset[row]);
  }
}

/** The same, but only of a turn that clears a bucket. */
function clearBlindly({ geometry }: Pair): ChangeDoorbell {
  const { rows } = geometry.hashMailbox;
  return function* (batch, isDecision) {
    if (batch.length < 2 || !isDecision(1)) return;
    // The record of the turn is in front of the CAS that decides it, from the scratch's beginning.
    const { decisions } = decodeTurn(batch.scratch[0], batch.bytes[0], rows);
    if (isClearing(decisions)) yield* decideBlindly(batch, isDecision);
  };
}

/** A WRITE of the new word in the place of each CAS but that which decides. */
function writeLate(batch: Batch, isDecision: (row: number) => boolean): Iterable<Batch> {
  for (let row = 0; row < batch.length; row++) {
    if (batch.kind[row] !== CAS || isDecision(row)) continue;
    batch.kind[row] = WRITE;
    batch.offset[row] += 8;
  }
  return [];
}

/**
 * A server that does the turn of another one again leaves out the replies: what was applied is
 * answered once more, by applying it.
 */
function forgetReplies({ geometry }: Pair): ChangeDoorbell {
  const { hashMailbox: mailbox } = geometry;
  let isOwn = false;
  return (batch, isDecision) => {
    const rows = Array.from({ length: batch.length }, (_, row) => row);
    const swaps = rows.filter((row) => batch.kind[row] === CAS);
    if (swaps.some(isDecision)) isOwn = true;
    const isLast = swaps.some((row) => batch.address[row] === geometry.base + PAIR.done);
    for (const row of isLast && !isOwn ? swaps : []) {
      const at = batch.address[row];
      if (at >= mailbox.base && at < mailbox.base + mailbox.bytes) batch.kind[row] = READ;
    }
    if (isLast) isOwn = false;
    return [];
  };
}

/** Each key is what a scan of its own says. */
function scanOneByOne(index: HStoreIndex): void {
  const scan = index.scan.bind(index);
  index.scan = (range = {}) => {
    const whole = scan(range);
    const next = whole.next.bind(whole);
    whole.next = function* (visit) {
      const keys: Uint8Array[] = [];
      yield* next(({ outgoing }, bytes) => {
        keys.push(outgoing.u8.slice(HEADER_BYTES, HEADER_BYTES + bytes));
      });
      for (const key of keys) {
        const bound = { key, inclusive: true };
        yield* scan({ lower: bound, upper: bound }).next(visit);
      }
    };
    return whole;
  };
}

/** What a look finds after its wait is an answer, whatever its number. */
function takeLastAnswers({ replies }: Pair): void {
  const last = new Map<number, HashReply>();
  const look = replies.look.bind(replies);
  replies.look = function* (ticket, verbs) {
    const awaits = ticket !== undefined && replies.isServed;
    yield* look(ticket, verbs);
    if (ticket === undefined) return;
    if (awaits) ticket.reply ??= last.get(ticket.row);
    if (ticket.reply) last.set(ticket.row, ticket.reply);
  };
}

/** Scans beside writes, and little else. */
const SCANNING: Partial<Swarm> = { walks: 60, writes: 60, deaths: 0, serves: 0, losses: 0 };

/** A scan goes to a sequence that its client reads, and waits for nothing. */
function scansTo(name: string, sequence: 'begun' | 'committed'): Canary {
  const plant = (pair: Pair) => {
    pair.hashServer.committedFromNow = function* () {
      return (yield* readState(pair))[sequence];
    };
  };
  return canary(name, plant, 'linearizability', SCANNING);
}

export const HSTORE_CANARIES: readonly Canary[] = [
  canary(
    'a client that was overtaken publishes the table that it has doubled',
    ({ hashLease, hashServer }) => {
      const keep = hashLease.keep.bind(hashLease);
      hashLease.keep = function* () {
        yield* keep();
        return true;
      };
      const forestallAfter = hashServer.forestallAfter.bind(hashServer);
      hashServer.forestallAfter = function* (turn) {
        yield* forestallAfter(turn);
        return true;
      };
    },
    'reclamation',
  ),
  canary(
    'a server that was overtaken decides all the same',
    (pair) => changingTurns(pair, decideBlindly),
    'reclamation',
  ),
  canary(
    'a server that was overtaken clears a bucket all the same',
    (pair) => changingTurns(pair, clearBlindly(pair)),
    'reclamation',
    { evictions: 100, removes: 30, walks: 0, serves: 0, losses: 0 },
  ),
  canary(
    'what a server does that was overtaken comes late',
    (pair) => changingTurns(pair, writeLate),
    'structure',
  ),
  canary('the replies of a server that died are lost, and a retry is applied twice', (pair) => {
    changingTurns(pair, forgetReplies(pair));
  }),
  canary(
    'a lost table is built from a skiplist without the tail of the log',
    (pair) => {
      const { skiplist } = pair;
      const { followLog } = skiplist;
      skiplist.followLog = function* (generation, target) {
        if (pair.holds && this.applied >= 0) return true;
        return yield* followLog.call(this, generation, target);
      };
    },
    'linearizability',
    { losses: 2, serves: 10, walks: 20 },
  ),
  {
    name: 'HStore: a step of a scan is of as many moments as it has keys',
    caughtBy: 'linearizability',
    scenario: { swarm: { walks: 30, serves: 0, losses: 0, haste: 0 } },
    kind: HSTORE,
    index: (index: HStoreIndex) => {
      scanOneByOne(index);
      return index;
    },
  },
  canary(
    'the row of a request that was given up is used again at once',
    ({ mailbox }) => {
      mailbox.giveUp = (row) => mailbox.give(row);
    },
    'linearizability',
    { haste: 100, serves: 10, losses: 0 },
  ),
  canary(
    'a client whose wait has ended takes the answer to the last request of its row for its own',
    takeLastAnswers,
    'linearizability',
    { serves: 40, walks: 0, losses: 0, deaths: 0 },
  ),
  canary('a skiplist is scanned as it is', ({ skiplist }) => {
    skiplist.has = function () {
      return this.applied >= 0;
    };
  }),
  scansTo('a scan does not see what a GET has seen before', 'committed'),
  scansTo('a scan sees what a GET does not see yet', 'begun'),
];
