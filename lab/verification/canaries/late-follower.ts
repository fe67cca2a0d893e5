import { SHARD, ShardIndex } from '../../../src/indexes/shard/shard.ts';
import type { ShardRequest } from '../../../src/indexes/shard/table/request.ts';
import type { SharingRequest } from '../../../src/indexes/substrates/delegation.ts';
import { Batch, type Operation, Scratch } from '../../../src/verbs/index.ts';
import type { Canary } from '../canary.ts';

/** Read delegation as published (SHARD, section 3.2.1, after SMART). */
const CANARY = {
  caughtBy: 'linearizability',
  scenario: { crashes: false, swarm: { lanes: 4 } },
} as const;

export const shardLateFollowerCanary: Canary = {
  ...CANARY,
  name: 'a SHARD search that is served by a READ posted before it had queued',
  kind: SHARD,
  index: ({ partitions }: ShardIndex) => new ShardLateFollower(partitions),
};

class ShardLateFollower extends ShardIndex {
  readonly #flights = new Flights<ShardRequest>();

  override search(request: ShardRequest): Operation<boolean> {
    return this.#flights.search(request, () => super.search(request));
  }
}

interface Flight<R> {
  ended: boolean;
  found: boolean;
  followers: R[];
}

/** Searches in flight; a search that meets one of its key takes that one's answer. */
class Flights<R extends SharingRequest<R>> {
  readonly #flights = new Map<string, Flight<R>>();

  *search(request: R, search: () => Operation<boolean>): Operation<boolean> {
    const { h1, h2 } = request.hash;
    const name = `${h1}/${h2}`;
    const flight = this.#flights.get(name);
    if (flight !== undefined) return yield* this.#follow(flight, request);
    const own: Flight<R> = { ended: false, found: false, followers: [] };
    this.#flights.set(name, own);
    try {
      own.found = yield* search();
      if (own.found) for (const follower of own.followers) follower.takeFound(request);
    } finally {
      own.ended = true;
      this.#flights.delete(name);
    }
    return own.found;
  }

  *#follow(flight: Flight<R>, request: R): Operation<boolean> {
    flight.followers.push(request);
    const batch = new Batch();
    const words = new Scratch(8);
    while (!flight.ended) yield batch.clear().pause(0, words);
    return flight.found;
  }
}
