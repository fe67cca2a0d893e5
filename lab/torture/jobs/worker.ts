/** A process that adds jobs and works them off, until it is killed or there are none left. */
import { setTimeout as pause } from 'node:timers/promises';
import { hasCode } from '../../../src/errors.ts';
import { type Job, type Queue, queue } from '../../../src/helpers/index.ts';
import type { Store } from '../../../src/store/api.ts';
import { openSync } from '../../../src/store/open.ts';
import { Prng } from '../../workloads/index.ts';
import { dieBetweenVerbs } from '../suicide.ts';
import { ADDED, ADDING, BEGUN, DONE, DOUBLE, EventLog, FAILED, LOST, STARTED } from './log.ts';
import { type JobOrder, MARKS, QUEUE } from './order.ts';

const LEASE_MS = 60_000;
const ADDED_AT_ONCE = 48;
const TAKEN_AT_ONCE = 32;
/** More often than any job is taken: every kill of its holder counts. */
const ATTEMPTS = 10_000;
const IDLE_MS = 300;
/** A killed process may be listed until its parent has noticed. */
const LISTED_MS = 5000;

class Worker {
  readonly #order: JobOrder;
  readonly #jobs: Queue<number>;
  readonly #marks: Store<string>;
  readonly #log: EventLog;
  readonly #random: Prng;
  #next: number;

  constructor(order: JobOrder) {
    this.#order = order;
    this.#jobs = queue<number>(openSync(order.url, { ...QUEUE, create: false }), 'torture', {
      leaseMs: LEASE_MS,
    });
    this.#marks = openSync(order.url, { ...MARKS, create: false });
    this.#log = new EventLog(order.log);
    this.#random = Prng.fromSeed(order.seed);
    this.#next = order.from;
    if (order.suicideEvery > 0) dieBetweenVerbs(this.#random.fork(1), order.suicideEvery);
  }

  async run(): Promise<void> {
    this.#log.note(STARTED, [0]);
    let wasBusy = false;
    for (let idle = 0; idle < 2; ) {
      if (this.#next < this.#order.to) await this.#add();
      const taken = await this.#jobs.tryTake(1 + this.#random.below(TAKEN_AT_ONCE));
      if (taken.length > 0) await this.#work(taken);
      const isBusy = taken.length > 0 || this.#next < this.#order.to;
      // The parent kills only workers that are busy.
      if (isBusy !== wasBusy) process.send?.(isBusy);
      wasBusy = isBusy;
      if (isBusy) idle = 0;
      else await pause(IDLE_MS).then(() => idle++);
    }
    this.#log.close();
  }

  async #add(): Promise<void> {
    const end = Math.min(this.#order.to, this.#next + 1 + this.#random.below(ADDED_AT_ONCE));
    const numbers = Array.from({ length: end - this.#next }, (_, i) => this.#next + i);
    this.#next = end;
    this.#log.note(ADDING, numbers);
    await Promise.all(numbers.map((number) => this.#jobs.add(number, this.#options(number))));
    this.#log.note(ADDED, numbers);
  }

  #options(number: number) {
    const random = this.#random;
    return {
      attempts: ATTEMPTS,
      priority: random.below(3),
      delayMs: random.below(4) === 0 ? random.below(50) : 0,
      ...(random.below(4) === 0 && { key: `key ${number}` }),
    };
  }

  async #work(taken: readonly Job<number>[]): Promise<void> {
    this.#log.note(
      BEGUN,
      taken.map(({ data }) => data),
    );
    for (const job of taken) await this.#mark(job);
    for (const job of taken) {
      const isFailing = this.#random.below(50) === 0;
      this.#marks.delete(String(job.data));
      if (isFailing) {
        const outcome = await job.fail('on purpose', { retryMs: this.#random.below(20) });
        this.#log.note(outcome === 'lost' ? LOST : FAILED, [job.data]);
      } else await this.#complete(job);
    }
  }

  async #complete(job: Job<number>): Promise<void> {
    const isHit = this.#random.below(1000) === 0;
    const isDone = await job.complete();
    if (isHit && this.#order.canary === 'lose') return this.#log.note(FAILED, [job.data]);
    this.#log.note(isDone ? DONE : LOST, [job.data]);
    if (isHit && this.#order.canary === 'again') await this.#jobs.add(job.data);
  }

  /** While it holds a job, the job has its mark. */
  async #mark({ data }: Job<number>): Promise<void> {
    const [key, own] = [String(data), String(process.pid)];
    for (let waited = 0; !this.#marks.insert(key, own); waited += 10) {
      const other = Number(this.#marks.get(key) ?? 0);
      if (!isListed(other)) this.#marks.delete(key);
      else if (waited >= LISTED_MS) {
        this.#log.note(DOUBLE, [data]);
        return;
      } else await pause(10);
    }
  }
}

function isListed(pid: number): boolean {
  try {
    return pid > 0 && process.kill(pid, 0);
  } catch {
    return false;
  }
}

try {
  process.on('disconnect', () => process.exit());
  await new Worker(JSON.parse(process.argv[2])).run();
  process.exit(0);
} catch (error) {
  console.error(hasCode(error, 'SW_POOL_FULL') ? `${error}: give a larger --size` : error);
  process.exit(4);
}
