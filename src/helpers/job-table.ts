import { randomUUID } from 'node:crypto';
import { StepwellError } from '../errors.ts';
import { unsupported } from '../store/arguments.ts';
import type { Decide, StatesRead } from '../store/internal-calls.ts';
import {
  arrive,
  choose,
  claimKey,
  completeJob,
  confirm,
  discard,
  extendJob,
  type Failure,
  failJob,
  freeKey,
  insertJob,
  isAbandoned,
  type JobState,
  jobIn,
  type KeyState,
  keyIn,
  keyNames,
  leave,
  moveKey,
  Places,
  replaceKey,
  returnJob,
  reviveJob,
  takeJob,
} from './jobs.ts';

/** The steps of jobs.ts. Tests put others in their place. */
export const STEPS = {
  arrive,
  choose,
  claimKey,
  completeJob,
  confirm,
  discard,
  extendJob,
  failJob,
  freeKey,
  insertJob,
  isAbandoned,
  keyNames,
  leave,
  moveKey,
  replaceKey,
  returnJob,
  reviveJob,
  takeJob,
};

/** A claim of a key is tried again only after another client has claimed it or moved its job. */
const CLAIMS_MAX = 1000;

/** The calls of a store that a queue needs. */
export interface JobHost {
  changeState<T>(name: string, decide: Decide<T>): Promise<T>;
  readStates(from: string, to: string, limit: number): Promise<StatesRead>;
}

/** The job that has a unique key, and whether it is the one that was to be added. */
interface Added {
  readonly id: string;
  readonly added: boolean;
}

/**
 * The records of a queue in a store. Each method runs steps of jobs.ts one after the other, and may
 * end after any of them: jobs.ts says why that loses nothing.
 */
export class JobTable {
  readonly places: Places;
  readonly #host: JobHost;
  readonly #steps: typeof STEPS;

  constructor(host: JobHost, queue: string, steps: typeof STEPS = STEPS) {
    this.#host = host;
    this.places = new Places(queue);
    this.#steps = steps;
  }

  async now(): Promise<number> {
    const { from, to } = this.places.range('job');
    return (await this.read(from, to, 0)).now;
  }

  /** The first jobs of a range. Raises SW_UNSUPPORTED for a store without order or with a bound. */
  async read(from: string, to: string, limit: number): Promise<StatesRead> {
    const found = await this.#host.readStates(from, to, limit);
    if (!found.isBounded) return found;
    const why = 'a full store with maxRecords or maxBytes could not hand out its jobs';
    throw unsupported(`${why}: keep a queue in a store without a bound`);
  }

  async insert(name: string, job: JobState): Promise<boolean> {
    return this.#host.changeState(name, (state) => this.#steps.insertJob(state, job));
  }

  /** Adds a job with a unique key, unless the queue has one. */
  async insertUnique(name: string, job: JobState, key: string): Promise<Added> {
    const { id } = this.places.read(name);
    const keyName = this.places.key(key);
    // A key in use costs no write.
    const present = await this.#host.changeState(keyName, (state) => ({
      result: keyIn(state, keyName),
    }));
    if (present && (await this.#jobAt(present.place))) return { id: present.id, added: false };
    const adding: JobState = { ...job, phase: 'adding', key };
    await this.#host.changeState(name, (state, { self: holder }) =>
      this.#steps.insertJob(state, { ...adding, holder }),
    );
    let idOfKey: string | undefined;
    try {
      idOfKey = await this.#claim(keyName, { id, place: name });
    } finally {
      if (idOfKey !== id) await this.#withdraw(name, adding);
    }
    return { id: idOfKey, added: idOfKey === id };
  }

  /** The id of the job that has the key now. */
  async #claim(keyName: string, claim: KeyState): Promise<string> {
    for (let i = 0; i < CLAIMS_MAX; i++) {
      const found = await this.#host.changeState(keyName, (state) =>
        this.#steps.claimKey(state, keyName, claim),
      );
      if (found.id === claim.id) return claim.id;
      if ((await this.#jobAt(found.place)) !== undefined) return found.id;
      const isClaimed = await this.#host.changeState(keyName, (state) =>
        this.#steps.replaceKey(state, keyName, found, claim),
      );
      if (isClaimed) return claim.id;
    }
    throw new StepwellError('SW_CONTENTION', `other clients change ${keyName} again and again`);
  }

  /** Removes a job without its key. If that fails, a taker does it when this client is gone. */
  async #withdraw(name: string, job: JobState): Promise<void> {
    try {
      // The claim may have happened although it raised an error.
      if (await this.hasKey(name, job)) return;
      await this.#host.changeState(name, (state) => this.#steps.leave(state, name, 'adding'));
    } catch {
      // The error of the claim is the one to report.
    }
  }

  /** Whether the job's key names it. */
  hasKey(name: string, { key = '' }: JobState): Promise<boolean> {
    const keyName = this.places.key(key);
    const claim: KeyState = { id: this.places.read(name).id, place: name };
    return this.#host.changeState(keyName, (state) => this.#steps.keyNames(state, keyName, claim));
  }

  #jobAt(name: string): Promise<JobState | undefined> {
    return this.#host.changeState(name, (state) => ({ result: jobIn(state, name) }));
  }

  isHolderGone(name: string, holder: number): Promise<boolean> {
    return this.#host.changeState(name, (_, look) => ({ result: look.isGone(holder) }));
  }

  /**
   * Takes the job if it is free. Returns 'adding' if its adder may still withdraw it. Returns
   * 'changed' if it is not free, or if this client has continued its move; the next scan may then
   * meet it again.
   */
  async take(name: string, leaseMs: number): Promise<JobState | 'changed' | 'adding'> {
    const take = (hasKey: boolean) =>
      this.#host.changeState(name, (state, look) =>
        this.#steps.takeJob(state, look, name, this.places, leaseMs, hasKey),
      );
    let met = await take(false);
    if (met.job?.phase === 'adding') {
      // In this order: an adder that is gone claims no key after that.
      const isAbandoned = await this.#host.changeState(name, (state, look) =>
        this.#steps.isAbandoned(state, look, name),
      );
      if (await this.hasKey(name, met.job)) met = await take(true);
      else if (!isAbandoned) return 'adding';
      else {
        await this.#host.changeState(name, (state) => this.#steps.leave(state, name, 'adding'));
        return 'changed';
      }
    }
    if (met.taken && met.job !== undefined) return met.job;
    if (met.job !== undefined) await this.continue(name, met.job);
    return 'changed';
  }

  extend(name: string, token: number, leaseMs: number): Promise<boolean> {
    return this.#host.changeState(name, (state, look) =>
      this.#steps.extendJob(state, look, name, token, leaseMs),
    );
  }

  /** Gives a job back that its holder has not begun. */
  return(name: string, token: number): Promise<boolean> {
    return this.#host.changeState(name, (state, look) =>
      this.#steps.returnJob(state, look, name, token),
    );
  }

  async complete(name: string, token: number): Promise<boolean> {
    const job = await this.#host.changeState(name, (state) =>
      this.#steps.completeJob(state, name, token),
    );
    if (job !== undefined) await this.#freeKey(name, job.key);
    return job !== undefined;
  }

  /** Where the job goes; undefined if it is not the holder's. */
  async fail(name: string, failure: Failure): Promise<string | undefined> {
    const job = await this.#host.changeState(name, (state, look) =>
      this.#steps.failJob(state, look, name, this.places, failure),
    );
    if (job !== undefined) await this.continue(name, job);
    return job?.to;
  }

  /** Puts a dead letter back among the jobs; false if it is none any more. */
  async revive(name: string): Promise<boolean> {
    const job = await this.#host.changeState(name, (state, look) =>
      this.#steps.reviveJob(state, look, name, this.places),
    );
    if (job !== undefined) await this.continue(name, job);
    return job !== undefined;
  }

  /** Removes a dead letter. */
  remove(name: string): Promise<boolean> {
    return this.#host.changeState(name, (state) => this.#steps.leave(state, name, 'waiting'));
  }

  /** Continues the move that a job is in. */
  async continue(name: string, job: JobState): Promise<void> {
    if (job.phase === 'moving') await this.#move(name, job);
    if (job.phase === 'arriving') await this.#settle(name, job);
  }

  /** Steps 1 to 5 of a move from `name`. */
  async #move(name: string, job: JobState): Promise<void> {
    const { to = '' } = job;
    const { isDead } = this.places.read(to);
    let { copy } = job;
    if (copy === undefined) {
      const fresh = randomUUID();
      const arriving = await this.#host.changeState(to, (state) =>
        this.#steps.arrive(state, to, name, job, isDead, fresh),
      );
      copy = await this.#host.changeState(name, (state) =>
        this.#steps.choose(state, name, arriving),
      );
      if (arriving !== undefined && arriving !== copy) await this.#discard(to, arriving);
      if (copy === undefined) return;
    }
    const chosen = copy;
    if (isDead) await this.#freeKey(name, job.key);
    else await this.#moveKey(name, to, job.key);
    await this.#host.changeState(to, (state) => this.#steps.confirm(state, to, chosen));
    await this.#host.changeState(name, (state) => this.#steps.leave(state, name, 'moving'));
  }

  /** Continues the move that an arriving job is of, or removes the job if it was not chosen. */
  async #settle(name: string, { from = '', copy = '' }: JobState): Promise<void> {
    const origin = await this.#jobAt(from);
    const isOpen = origin?.phase === 'moving' && (origin.copy ?? copy) === copy;
    if (!isOpen) await this.#discard(name, copy);
    if (origin?.phase === 'moving') await this.#move(from, origin);
  }

  async #discard(name: string, copy: string): Promise<void> {
    await this.#host.changeState(name, (state) => this.#steps.discard(state, name, copy));
  }

  async #freeKey(name: string, key: string | undefined): Promise<void> {
    if (key === undefined) return;
    const keyName = this.places.key(key);
    const { id } = this.places.read(name);
    await this.#host.changeState(keyName, (state) => this.#steps.freeKey(state, keyName, id));
  }

  async #moveKey(from: string, to: string, key: string | undefined): Promise<void> {
    if (key === undefined) return;
    const keyName = this.places.key(key);
    await this.#host.changeState(keyName, (state) => this.#steps.moveKey(state, keyName, from, to));
  }
}
