import type { Index } from '../../../src/indexes/contract.ts';
import { Batch, type Operation } from '../../../src/verbs/index.ts';
import { CallRecord, foundState } from '../checks/history.ts';
import type { CallLog } from './caller.ts';

/** `getMany` of all keys: searches in shared doorbells, each judged by its key's history. */
export class ManySearch {
  readonly #name: string;
  readonly #index: Index;
  readonly #log: CallLog;
  readonly since: number;

  constructor(name: string, index: Index, log: CallLog) {
    this.#name = name;
    this.#index = index;
    this.#log = log;
    this.since = log.now();
  }

  *run(): Operation<void> {
    const index = this.#index;
    const requests = this.#log.keys.map((key) => {
      const request = index.newRequest();
      request.setKey(key, index.records.seed);
      return request;
    });
    const found: boolean[] = [];
    yield* this.#index.searchMany(requests, requests.length, new Batch(), found);
    const states = [];
    for (const [key, request] of requests.entries()) {
      const present = found[key] && !index.records.isExpired(request);
      if (present) yield* index.records.complete(request);
      states.push(present ? foundState(request) : undefined);
    }
    const until = this.#log.now();
    states.forEach((state, key) => {
      const call = { key, kind: 'search' as const, by: 'batch' as const };
      const seen = CallRecord.seen(this.#name, call, state, this.since, until, this.#log.clock);
      this.#log.record(seen);
    });
  }
}
