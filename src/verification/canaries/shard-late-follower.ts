import { ShardIndex } from '../../indexes/shard/shard.ts';
import type { ShardRequest } from '../../indexes/shard/table.ts';
import { Batch, type Operation, Scratch } from '../../verbs/index.ts';
import type { Canary } from '../canary.ts';

/** Read delegation as published (published-systems.md section 3.4, no. 5). */
export const shardLateFollowerCanary: Canary = {
  name: 'a SHARD search that is served by a READ posted before it had queued',
  caughtBy: 'linearizability',
  scenario: { crashes: false, swarm: { lanes: 4 } },
  shard: ({ partitions }) => new LateFollower(partitions),
};

interface Flight {
  ended: boolean;
  found: boolean;
  followers: ShardRequest[];
}

class LateFollower extends ShardIndex {
  readonly #flights = new Map<string, Flight>();

  override *search(request: ShardRequest): Operation<boolean> {
    const { h1, h2 } = request.hash;
    const name = `${h1}/${h2}`;
    const flight = this.#flights.get(name);
    if (flight !== undefined) return yield* this.#follow(flight, request);
    const own: Flight = { ended: false, found: false, followers: [] };
    this.#flights.set(name, own);
    try {
      own.found = yield* super.search(request);
      if (own.found) for (const follower of own.followers) follower.takeFound(request);
    } finally {
      own.ended = true;
      this.#flights.delete(name);
    }
    return own.found;
  }

  *#follow(flight: Flight, request: ShardRequest): Operation<boolean> {
    flight.followers.push(request);
    const batch = new Batch();
    const words = new Scratch(8);
    while (!flight.ended) yield batch.clear().pause(0, words);
    return flight.found;
  }
}
