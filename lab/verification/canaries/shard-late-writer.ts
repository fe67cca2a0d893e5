import { ALWAYS, type Condition, type Outcome, REPLACED } from '../../../src/indexes/contract.ts';
import { SHARD, ShardIndex } from '../../../src/indexes/shard/shard.ts';
import type { ShardRequest } from '../../../src/indexes/shard/table/request.ts';
import { Batch, type Operation, Scratch } from '../../../src/verbs/index.ts';
import type { Canary } from '../canary.ts';

/** Write combining without the rule that a write that comes after the CAS was posted must wait. */
export const shardLateWriterCanary: Canary = {
  name: 'a SHARD write is merged into one whose CAS was posted before it had queued',
  caughtBy: 'linearizability',
  scenario: { crashes: false, swarm: { lanes: 4 } },
  kind: SHARD,
  index: ({ partitions }: ShardIndex) => new LateWriter(partitions),
};

interface Flight {
  ended: boolean;
  outcome: Outcome | undefined;
}

class LateWriter extends ShardIndex {
  readonly #flights = new Map<string, Flight>();

  override *write(request: ShardRequest, condition: Condition, expected = 0): Operation<Outcome> {
    const { h1, h2 } = request.hash;
    const name = `${h1}/${h2}`;
    const flight = this.#flights.get(name);
    if (flight !== undefined && condition === ALWAYS) {
      yield* untilEnded(flight);
      // As if it had come right before the one that was under way.
      if (flight.outcome !== undefined) return REPLACED;
    }
    const own: Flight = { ended: false, outcome: undefined };
    this.#flights.set(name, own);
    try {
      const outcome = yield* super.write(request, condition, expected);
      if (condition === ALWAYS && outcome === REPLACED) own.outcome = outcome;
      return outcome;
    } finally {
      own.ended = true;
      this.#flights.delete(name);
    }
  }
}

function* untilEnded(flight: Flight): Operation<void> {
  const batch = new Batch();
  const words = new Scratch(8);
  while (!flight.ended) yield batch.clear().pause(0, words);
}
