import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ALWAYS } from '../../../src/indexes/contract.ts';
import { type Batch, CAS, type Operation, PAUSE, READ } from '../../../src/verbs/index.ts';
import { type AdversaryFabric, Execution, WHOLE } from '../schedules/adversary.ts';
import { type Client, Stage } from './support/stage.ts';

type Step = 'claim' | 'withdraw' | 'evict' | 'commit' | 'other';

/** An inserter that is moved batch by batch. `batch` is posted and not executed yet. */
class Inserter {
  readonly #fabric: AdversaryFabric;
  readonly #operation: Operation<number>;
  batch: Batch | undefined;

  constructor({ pool, index }: Client, key: string, version: number) {
    this.#fabric = pool.fabric as AdversaryFabric;
    const request = index.newRequest();
    index.records.encode(request, key, String(version), version);
    this.#operation = index.write(request, ALWAYS);
    this.#post();
  }

  #post(): void {
    const { done, value } = this.#operation.next();
    this.batch = done ? undefined : (value as Batch);
  }

  get done(): boolean {
    return this.batch === undefined;
  }

  get next(): Step {
    const { kind, length, scratch, offset } = this.batch as Batch;
    if (kind[0] === PAUSE || !kind.subarray(0, length).includes(CAS)) return 'other';
    if (length > 1) return 'claim';
    const { i32 } = scratch[0];
    const vacates = i32[(offset[0] >> 2) + 2] === 0;
    // An inserter's own swap stands first in its words, one of another's slot behind it.
    if (vacates) return offset[0] === 0 ? 'withdraw' : 'evict';
    return 'commit';
  }

  step(): void {
    this.#fabric.execute(this.batch as Batch);
    this.#post();
  }

  until(...wanted: Step[]): this {
    for (let steps = 0; !wanted.includes(this.next); steps++) {
      assert.ok(steps < 500, `still not at ${wanted}`);
      this.step();
    }
    return this;
  }

  /** Executes the posted claim; what others do meanwhile comes before its READs. */
  claimWhile(others: () => void): void {
    const batch = this.batch as Batch;
    const execution = new Execution(this.#fabric, batch, () => WHOLE);
    while (batch.kind[execution.openRows()[0]] !== READ) {
      execution.perform(execution.openRows()[0], 0);
    }
    others();
    while (!execution.finished) execution.perform(execution.openRows()[0], 0);
    this.#post();
  }
}

/** Steps that one does while the other stands still: more than it polls at first. */
const STALL = 100;

/** Which of the two rivals has the lower address depends on the key. */
const KEYS = ['k0', 'k1', 'k2', 'k3'];

function inserters(key: string, count: number): Inserter[] {
  const stage = new Stage();
  return Array.from({ length: count }, (_, i) => {
    const client = stage.client();
    client.pool.enter();
    return new Inserter(client, key, 1000 * (i + 1));
  });
}

for (const key of KEYS) {
  test(`an inserter whose rival's slot a third one has claimed commits: ${key}`, () => {
    const [first, second, third] = inserters(key, 3);
    first.until('claim').claimWhile(() => second.until('claim').step());
    first.until('evict', 'withdraw');
    second.until('evict', 'withdraw');
    const [winner, loser] = first.next === 'evict' ? [first, second] : [second, first];
    assert.deepEqual([winner.next, loser.next], ['evict', 'withdraw']);
    loser.step();
    third.until('claim').step();
    winner.step();
    assert.equal(winner.next, 'commit');
  });

  test(`two inserters that stall for longer than they are patient get to an end: ${key}`, () => {
    const rivals = inserters(key, 2).map((rival) => rival.until('claim'));
    let bursts = 0;
    for (; rivals.some(({ done }) => !done); bursts++) {
      assert.ok(bursts < 100, 'they evict each other for ever');
      const rival = rivals[bursts % 2];
      // Each stands still before its commit while the other goes on.
      for (let steps = 0; steps < STALL && !rival.done; steps++) {
        rival.step();
        if (!rival.done && rival.next === 'commit') break;
      }
    }
    assert.ok(bursts > 2);
  });
}
