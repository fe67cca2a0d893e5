import type { Index } from '../../../src/indexes/contract.ts';
import { HSTORE, type HStoreIndex } from '../../../src/indexes/hstore/hstore.ts';
import { eachWaiting, HStoreParts } from '../../../src/indexes/hstore/parts.ts';
import {
  bucketIn,
  bucketsOf,
  PAIR,
  segmentBuckets,
  segmentCount,
} from '../../../src/indexes/hstore/protocol/geometry.ts';
import { BUCKET_BYTES, signatureOf } from '../../../src/indexes/hstore/protocol/slot.ts';
import { PATIENCE } from '../../../src/indexes/hstore/protocol/waiting.ts';
import { abandonedRequests } from '../../../src/indexes/hstore/recovery/abandoned-requests.ts';
import type { Prng } from '../../../src/random/prng.ts';
import type { Address, Operation } from '../../../src/verbs/index.ts';
import { picker, type Subject } from './subject.ts';

export const HSTORE_SUBJECT: Subject = {
  kind: HSTORE,
  parameters: (prng, crowded) => ({
    pairs: prng.below(4) === 0 ? 2 : 1,
    ...tableSizes(prng, crowded),
    rows: 16 + 8 * prng.below(3),
    log: 2 ** (1 + prng.below(5)),
    partitions: 1 + prng.below(2),
    sync: 0,
    seed: prng.next32(),
  }),
  // In such tables chains form, and some of the tables grow. Such logs come round all the time.
  torture(prng) {
    const pick = picker(prng);
    const [pairs, buckets] = [pick(1, 1, 2), pick(4, 32, 256)];
    return {
      pairs,
      buckets,
      bucketsMax: buckets * pick(1, 4, 64),
      log: pick(4, 32, 4096),
      partitions: pick(1, 4),
    };
  },
  smallest: {
    pairs: 1,
    buckets: 1,
    rows: 4,
    log: 4,
    partitions: 1,
    sync: 0,
    seed: 7,
    bucketsMax: 1,
  },
  place: ({ h1 }, { buckets }) => String(bucketIn(h1, buckets)),
  fingerprint: ({ h2 }) => signatureOf(h2),
  placesOfKey: () => 7,
  walksOnce: true,
  scansSnapshots: ({ pairs }) => pairs === 1,
  servers: { serve, table: tableSegments, restore },
  // The server of the moment answers a request, also when its client has died since.
  answersTheDead: true,
  // Some overtake the server as soon as they see it: a server that was stopped goes on
  // when others have been the server for any time.
  vary(index, prng) {
    if (prng.below(3) > 0) impatient(index as HStoreIndex, prng.below(4));
  },
  hurry(index) {
    impatient(index as HStoreIndex, 1);
  },
  hasten(index, attempts) {
    const { table } = index as HStoreIndex;
    table.patience = { ...table.pairs[0].patience, pollsMax: attempts, waitsMax: attempts };
  },
  leaveNothing(index) {
    // As if it had waited for the places that clients before it may have used.
    for (const { geometry, pool, ownRecords } of (index as HStoreIndex).table.pairs) {
      for (const place of geometry.ownRecords(pool.membership.id)) ownRecords.give(place, false);
    }
  },
  pending: (index) => pendingRecords(index as HStoreIndex),
  pendingBlocks: (index) => pendingBlocks(index as HStoreIndex),
};

/** Some tables can grow; in the others only chains do. */
function tableSizes(prng: Prng, crowded: boolean) {
  const buckets = 2 ** prng.below(crowded ? 1 : 3);
  return { buckets, bucketsMax: buckets * 4 ** prng.below(3) };
}

const ROLES = ['both', 'hash', 'skiplist'] as const;

function* serve(index: Index, prng: Prng): Operation<void> {
  const server = (index as HStoreIndex).server({ role: ROLES[prng.below(ROLES.length)] });
  try {
    for (let rounds = 1 + prng.below(20); rounds > 0; rounds--) yield* server.round();
  } finally {
    // Also stops if a hasty client gave up waiting for another server.
    yield* server.stop();
  }
}

function tableSegments(index: Index, peek: (address: Address) => bigint) {
  return (index as HStoreIndex).table.pairs.flatMap(({ geometry }) => {
    const generation = Math.floor(Number(peek(geometry.base + PAIR.table)) / 2);
    const buckets = bucketsOf(geometry.shape, generation);
    return Array.from({ length: segmentCount(buckets) }, (_, i) => {
      const address = Number(peek(geometry.segmentTable + 8 * i));
      return { address, bytes: segmentBuckets(buckets) * BUCKET_BYTES };
    });
  });
}

function* restore(index: Index): Operation<void> {
  const parts = new HStoreParts((index as HStoreIndex).table);
  for (; !parts.order.done; parts.order.pass()) yield* parts.read();
}

function impatient({ table }: HStoreIndex, stand: number): void {
  table.patience = {
    polls: 1,
    stand,
    lapse: 50_000,
    pollsMax: 100_000,
    waitsMax: PATIENCE.waitsMax,
    microseconds: 1,
    longMicroseconds: 1,
  };
}

/** Requests that wait in a mailbox, and whose clients wait for no answer any more. */
function* pendingRecords({ table }: HStoreIndex): Operation<Address[]> {
  const found: Address[] = [];
  for (const pair of table.pairs) {
    for (const { block } of yield* abandonedRequests(pair)) found.push(block);
  }
  return found;
}

function* pendingBlocks({ table }: HStoreIndex): Operation<Address[]> {
  const found: Address[] = [];
  for (const pair of table.pairs) {
    yield* eachWaiting(table, pair, (address) => found.push(address));
  }
  return found;
}
