import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { hasCode } from '../../errors.ts';
import type { AsyncStore } from '../../store/api.ts';
import { rejectsCode, throwsCode } from '../../store/tests/support/codes.ts';
import { JobTable } from '../job-table.ts';
import { queue } from '../queue.ts';
import type { Job } from '../queue-api.ts';
import { inMemory, onOrderedStores } from './support/stores.ts';

const START = 1_700_000_000_000;
/** No test waits for the end of such a lease. */
const LONG = { leaseMs: 600_000 };
const WAIT = { waitMs: 60_000 };

/** A store on `chime` whose time stands still. */
function stopped(t: Parameters<typeof inMemory>[0]) {
  const time = { now: START };
  return { time, ...inMemory(t, 'chime', { clock: () => time.now }) };
}

const dataOf = (jobs: readonly Job<unknown>[]) => jobs.map(({ data }) => data);

onOrderedStores('a job is added, taken and completed once', async ({ s, attach }) => {
  const jobs = queue<{ to: string }>(s, 'mail', LONG);
  const others = queue<{ to: string }>(await attach(), 'mail', LONG);
  assert.deepEqual(await others.tryTake(), []);
  const { id, added } = await jobs.add({ to: 'ada' });
  assert.ok(added);
  const taken = await others.take(WAIT);
  assert.deepEqual([taken.id, taken.data, taken.attempt], [id, { to: 'ada' }, 1]);
  assert.deepEqual(await jobs.tryTake(), []);
  assert.deepEqual(await jobs.counts(), { waiting: 0, delayed: 0, active: 1, dead: 0 });
  assert.equal(await taken.extend(), true);
  assert.equal(await taken.complete(), true);
  assert.equal(await taken.complete(), false);
  assert.equal(await taken.extend(), false);
  assert.equal(await taken.fail('late'), 'lost');
  assert.deepEqual(await jobs.counts(), { waiting: 0, delayed: 0, active: 0, dead: 0 });
});

onOrderedStores('a job that fails comes again, and dies after its attempts', async ({ s }) => {
  const jobs = queue(s, 'q', LONG);
  await jobs.add('work', { attempts: 2, backoffMs: 0, key: 'k' });
  const first = await jobs.take(WAIT);
  assert.equal(await first.fail(new TypeError('no')), 'retry');
  assert.deepEqual(await jobs.add('again', { key: 'k' }), { id: first.id, added: false });
  const second = await jobs.take(WAIT);
  assert.deepEqual([second.id, second.attempt, second.error], [first.id, 2, 'TypeError: no']);
  assert.equal(await second.fail('still no'), 'dead');
  assert.deepEqual(await jobs.tryTake(), []);
  // A dead letter no longer has its key.
  assert.equal((await jobs.add('new', { key: 'k' })).added, true);
  await (await jobs.take(WAIT)).complete();
  const [letter] = await jobs.deadLetters();
  assert.deepEqual(
    [letter.id, letter.data, letter.error, letter.attempts],
    [first.id, 'work', 'still no', 2],
  );
  assert.equal(await letter.retry(), true);
  assert.equal(await letter.retry(), false);
  const third = await jobs.take(WAIT);
  assert.equal(third.attempt, 3);
  assert.equal(await third.fail('no', { retryMs: 0 }), 'retry');
  assert.equal(await (await jobs.take(WAIT)).fail('no'), 'dead');
  const [again] = await jobs.deadLetters();
  assert.equal(await again.remove(), true);
  assert.equal(await again.remove(), false);
  assert.deepEqual(await jobs.counts(), { waiting: 0, delayed: 0, active: 0, dead: 0 });
});

onOrderedStores('takers that run together share the jobs', async ({ s, attach }) => {
  const stores: AsyncStore[] = [s, await attach(), await attach()];
  const jobs = queue<number>(s, 'q', LONG);
  const numbers = Array.from({ length: 60 }, (_, i) => i);
  await Promise.all(numbers.map((i) => jobs.add(i, { key: `${i % 30}` })));
  const done: number[] = [];
  const work = async (store: AsyncStore, count: number) => {
    const own = queue<number>(store, 'q', LONG);
    while (done.length < 30) {
      for (const job of await own.tryTake(count)) {
        assert.equal(await job.complete(), true);
        done.push(job.data);
      }
    }
  };
  await Promise.all(stores.map((store, i) => work(store, 1 + 3 * i)));
  assert.equal(new Set(done.map((i) => i % 30)).size, 30);
  assert.equal(done.length, 30);
});

onOrderedStores('the jobs of a client that is gone go to others', async ({ s, attach }) => {
  const doomed = await attach();
  const jobs = queue(s, 'q', LONG);
  await jobs.add('work', { attempts: 2 });
  await queue(doomed, 'q', LONG).take(WAIT);
  assert.deepEqual(await jobs.tryTake(), []);
  await doomed.close();
  const taken = await jobs.take(WAIT);
  assert.equal(taken.attempt, 2);
  await taken.complete();
});

test('jobs come by priority, then by the time at which they are due', async (t) => {
  const { s, time } = stopped(t);
  const jobs = queue(s, 'q', LONG);
  await jobs.add('low', { priority: 0 });
  await jobs.add('later', { priority: 9, delayMs: 50 });
  for (const data of ['a', 'b', 'c']) await jobs.add(data, { priority: 5 });
  time.now += 1;
  await jobs.add('d', { priority: 5 });
  await jobs.add('most', { priority: 255 });
  assert.deepEqual(await jobs.counts(), { waiting: 6, delayed: 1, active: 0, dead: 0 });
  assert.deepEqual(dataOf(await jobs.tryTake(3)), ['most', 'a', 'b']);
  time.now = START + 49;
  assert.deepEqual(dataOf(await jobs.tryTake()), ['c']);
  time.now = START + 50;
  assert.deepEqual(dataOf(await jobs.tryTake(10)), ['later', 'd', 'low']);
});

test('more jobs that are held or delayed than a scan reads at a time', async (t) => {
  const { s, time } = stopped(t);
  const jobs = queue<number>(s, 'q', LONG);
  for (let i = 0; i < 700; i++) await jobs.add(i, { delayMs: i % 2, priority: i % 2 });
  assert.deepEqual(dataOf(await jobs.tryTake(1000)).length, 350);
  await jobs.add(700);
  assert.deepEqual(dataOf(await jobs.tryTake(2)), [700]);
  time.now += 1;
  assert.deepEqual(dataOf(await jobs.tryTake(1000)).length, 350);
  assert.deepEqual(await jobs.counts(), { waiting: 0, delayed: 0, active: 701, dead: 0 });
});

test('each failure doubles the backoff', async (t) => {
  const { s, time } = stopped(t);
  const jobs = queue(s, 'q', LONG);
  await jobs.add('work', { attempts: 4, backoffMs: 100 });
  for (const backoff of [100, 200, 400]) {
    const [job] = await jobs.tryTake();
    assert.equal(await job.fail('no'), 'retry');
    time.now += backoff - 1;
    assert.deepEqual(await jobs.tryTake(), []);
    time.now += 1;
  }
  const [last] = await jobs.tryTake();
  assert.equal(await last.fail('no'), 'dead');
});

test('a holder whose lease ran out loses the job', async (t) => {
  const { s, time, attach } = stopped(t);
  const jobs = queue(s, 'q', { leaseMs: 1000, renew: false });
  await jobs.add('work', { attempts: 2 });
  const [late] = await jobs.tryTake();
  const others = queue(await attach(), 'q', { leaseMs: 1000, renew: false });
  time.now += 999;
  assert.equal(await late.extend(), true);
  time.now += 999;
  assert.deepEqual(await others.tryTake(), []);
  time.now += 1;
  const [next] = await others.tryTake();
  assert.equal(next.attempt, 2);
  const lost = once(late.signal, 'abort');
  assert.equal(await late.complete(), false);
  await lost;
  assert.ok(hasCode(late.signal.reason, 'SW_LEASE_LOST'));
  // That was the last attempt: it becomes a dead letter without anyone's word.
  time.now += 1000;
  assert.deepEqual(await others.tryTake(), []);
  assert.deepEqual(await jobs.counts(), { waiting: 0, delayed: 0, active: 0, dead: 1 });
  assert.equal(await next.complete(), false);
  const [letter] = await jobs.deadLetters();
  assert.match(letter.error ?? '', /the lease of the last attempt was over/);
});

test('a lease is extended while its holder waits, and ends with its store', async (t) => {
  const { s, attach, share } = inMemory(t, 'chime');
  const handle = await share();
  const jobs = queue(s, 'q', { leaseMs: 2000 });
  await jobs.add('work');
  const held = await queue(handle, 'q', { leaseMs: 2000 }).take(WAIT);
  const others = queue(await attach(), 'q', LONG);
  await rejectsCode('SW_TIMEOUT', () => others.take({ waitMs: 3000 }));
  assert.ok(!held.signal.aborted);
  await handle.close();
  assert.ok(hasCode(held.signal.reason, 'SW_LEASE_LOST'));
  const [next] = await others.tryTake();
  assert.equal(next.attempt, 2);
});

test('a wait ends with a job, in time or by its signal', async (t) => {
  const { s, attach } = inMemory(t, 'chime');
  const jobs = queue(s, 'q', LONG);
  const waiting = jobs.take(WAIT);
  await queue(await attach(), 'q').add('work', { delayMs: 20 });
  assert.equal((await waiting).data, 'work');
  await rejectsCode('SW_TIMEOUT', () => jobs.take({ waitMs: 1 }));
  const aborting = new AbortController();
  const aborted = jobs.takeMany(2, { signal: aborting.signal });
  aborting.abort('enough');
  await assert.rejects(aborted, { code: 'SW_ABORTED', cause: 'enough' });
  const signal = AbortSignal.abort();
  await rejectsCode('SW_ABORTED', () => jobs.take({ signal }));
});

test('an addition that its client died in is undone, or done if it had the key', async (t) => {
  const { s, attach } = inMemory(t, 'chime');
  const jobs = queue(s, 'q', LONG);
  const doomed = await attach();
  const places = ['x', 'y'].map((id) => `queue:q:job:255:00000000000001:${id}.0`);
  for (const place of places) {
    await doomed.changeState(place, (_, { self: holder }) => {
      const counts = { priority: 0, attempts: 3, last: 3, taken: 0, backoffMs: 1 };
      const next = { phase: 'adding', data: '"work"', key: 'k', holder, ...counts };
      return { result: true, next };
    });
  }
  // Of an adder that lives: not in the queue, and not removed.
  assert.deepEqual(await jobs.tryTake(), []);
  assert.equal((await jobs.counts()).waiting, 0);
  await doomed.changeState('queue:q:key:k', () => {
    return { result: true, next: { id: 'y', place: places[1] } };
  });
  assert.equal((await jobs.counts()).waiting, 1);
  assert.deepEqual(await jobs.add('more', { key: 'k' }), { id: 'y', added: false });
  await doomed.close();
  assert.equal((await jobs.take(WAIT)).id, 'y');
  assert.deepEqual(await jobs.tryTake(), []);
  const left = await s.changeState('queue:q:job:255:00000000000001:x.0', (state) => {
    return { result: state };
  });
  assert.equal(left, undefined);
});

test('a claim that happened although it raised an error leaves its job there', async (t) => {
  const { s } = inMemory(t, 'chime');
  const jobs = queue(s, 'q', LONG);
  let keyCalls = 0;
  const table = new JobTable(
    {
      readStates: (from, to, limit) => s.readStates(from, to, limit),
      changeState: async (name, decide) => {
        const result = await s.changeState(name, decide);
        // The first call looks whether the key is in use, the second one claims it.
        if (name.includes(':key:') && ++keyCalls === 2) throw new Error('the answer was lost');
        return result;
      },
    },
    'q',
  );
  const counts = { priority: 0, attempts: 3, last: 3, taken: 0, backoffMs: 1 };
  const name = table.places.job(0, 1, 'x', 0);
  const adding = table.insertUnique(name, { phase: 'waiting', data: '1', ...counts }, 'k');
  await assert.rejects(adding, /the answer was lost/);
  assert.deepEqual(await jobs.add('more', { key: 'k' }), { id: 'x', added: false });
  assert.equal((await jobs.take(WAIT)).id, 'x');
});

test('the key of a job whose completer died before it freed the key is free', async (t) => {
  const { s } = inMemory(t, 'chime');
  const jobs = queue(s, 'q', LONG);
  await s.changeState('queue:q:key:k', () => {
    return { result: 1, next: { id: 'x', place: 'queue:q:job:255:00000000000001:x.0' } };
  });
  assert.equal((await jobs.add('work', { key: 'k' })).added, true);
  assert.equal((await jobs.take(WAIT)).data, 'work');
});

test('a wait that ends when it has just taken a job gives the job back unused', async (t) => {
  const { s } = inMemory(t, 'chime');
  const jobs = queue(s, 'q', LONG);
  await jobs.add('work', { attempts: 1 });
  const aborting = new AbortController();
  const waiting = jobs.take({ signal: aborting.signal });
  aborting.abort();
  await rejectsCode('SW_ABORTED', () => waiting);
  const job = await jobs.take(WAIT);
  assert.equal(job.data, 'work');
  assert.equal(await job.complete(), true);
  assert.deepEqual(await jobs.deadLetters(), []);
});

test('queues of several names and namespaces are apart, and hidden from walks', async (t) => {
  const { s } = inMemory(t, 'chime');
  const places = [s, s.namespace('a:'), s.namespace('a:').namespace('b:')];
  const queues = places.flatMap((one) => ['q', 'q:job', 'q%3A'].map((name) => queue(one, name)));
  for (const [i, one] of queues.entries()) await one.add(i, { key: 'k' });
  for (const [i, one] of queues.entries()) {
    assert.deepEqual(dataOf(await one.tryTake(100)), [i]);
  }
  assert.deepEqual((await s.scanPage(0, 1000)).entries, []);
  assert.deepEqual(await s.scan().nextMany(100), []);
  await s.set('k', 'v');
  assert.equal(await s.clear(), 1);
  assert.equal((await queues[0].counts()).active, 1);
});

/** Others go on when there is room again. */
async function completesInFullPool(s: AsyncStore): Promise<void> {
  const jobs = queue(s, 'q', LONG);
  const text = 'x'.repeat(3000);
  for (let i = 0; i < 100; i++) await s.set(`k${i}`, text);
  await jobs.add(text, { key: 'held' });
  const held = await jobs.take(WAIT);
  await jobs.add(text, { attempts: 1 });
  await (await jobs.take(WAIT)).fail('no');
  const [letter] = await jobs.deadLetters();
  let added = 0;
  await rejectsCode('SW_POOL_FULL', async () => {
    for (; added < 100_000; added++) await jobs.add(text);
  });
  await rejectsCode('SW_POOL_FULL', () => jobs.tryTake());
  // Neither needs memory; each of them frees some.
  assert.equal(await held.complete(), true);
  assert.equal(await letter.remove(), true);
  assert.equal(await s.clear(), 100);
  let done = 0;
  for (let [job] = await jobs.tryTake(); job !== undefined; [job] = await jobs.tryTake()) {
    assert.equal(await job.complete(), true);
    done++;
  }
  assert.ok(added > 100);
  assert.equal(done, added);
}

for (const index of ['chime', 'hstore'] as const) {
  test(`${index}: in a full pool jobs can be completed and removed`, async (t) => {
    const { s } = inMemory(t, index, { size: 4 * 2 ** 20 });
    await completesInFullPool(s);
  });
}

test('what a queue cannot be asked for', async (t) => {
  const { s } = inMemory(t, 'chime');
  const jobs = queue<unknown>(s, 'q');
  await rejectsCode('SW_UNSUPPORTED', () => queue(inMemory(t, 'race').s, 'q').add('x'));
  await rejectsCode('SW_UNSUPPORTED', () => queue(inMemory(t, 'race').s, 'q').tryTake());
  const { s: bounded } = inMemory(t, 'chime', { maxRecords: 50, eviction: 'lru' });
  await rejectsCode('SW_UNSUPPORTED', () => queue(bounded, 'q').add('x'));
  await rejectsCode('SW_UNSUPPORTED', () => queue(bounded, 'q').tryTake());
  const invalid = 'SW_INVALID_ARGUMENT';
  throwsCode(invalid, () => queue(s, 7 as never));
  throwsCode(invalid, () => queue({} as never, 'q'));
  throwsCode(invalid, () => queue(s, 'q', { leaseMs: 0 }));
  throwsCode(invalid, () => queue(s, 'q', { renew: 'no' as never }));
  throwsCode(invalid, () => queue(s, 'q', { lease: 5 } as never));
  for (const options of [
    { delayMs: -1 },
    { delayMs: 1e15 },
    { priority: 256 },
    { priority: 0.5 },
    { attempts: 0 },
    { backoffMs: Number.NaN },
    { key: 7 },
    { delay: 5 },
  ] as never[]) {
    await rejectsCode(invalid, () => jobs.add('x', options));
  }
  for (const data of [undefined, 1n, () => {}]) {
    await rejectsCode('SW_INVALID_VALUE', () => jobs.add(data));
  }
  for (const count of [0, 1001, 1.5, '2'] as never[]) {
    await rejectsCode(invalid, () => jobs.takeMany(count));
    await rejectsCode(invalid, () => jobs.tryTake(count));
  }
  await rejectsCode(invalid, () => jobs.take({ signal: {} as never }));
  await rejectsCode(invalid, () => jobs.deadLetters({ limit: 0 }));
  assert.equal((await jobs.counts()).waiting, 0);
  await s.changeState('queue:q:job:255:00000000000001:x.0', () => ({ result: 1, next: [] }));
  await rejectsCode('SW_UNDECODABLE', () => jobs.tryTake());
});
