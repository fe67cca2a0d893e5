import { randomUUID } from 'node:crypto';
import { unsupported } from '../store/arguments.ts';
import type { Decide, StateChange, StatesRead } from '../store/internal-calls.ts';
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
  type JobState,
  jobIn,
  type KeyState,
  keyIn,
  leave,
  moveKey,
  Places,
  replaceKey,
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
  leave,
  moveKey,
  replaceKey,
  reviveJob,
  takeJob,
};

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

  /**
   * Inserts a job with a unique key, unless the queue has one. Undefined while another client that
   * is alive has claimed the key and inserts its job.
   */
  async insertUnique(name: string, job: JobState, key: string): Promise<Added | undefined> {
    const { id } = this.places.read(name);
    const keyName = this.places.key(key);
    const claimOf = (client: number): KeyState => ({ id, place: name, client });
    const found = await this.#host.changeState(keyName, (state, { self }) =>
      this.#steps.claimKey(state, keyName, claimOf(self)),
    );
    if (found.id !== id) {
      if (await this.#isThere(found)) return { id: found.id, added: false };
      if (!(await this.#isOver(keyName, found))) return undefined;
      // Only now is it certain that its adder inserts nothing any more.
      if (await this.#isThere(found)) return { id: found.id, added: false };
      const isClaimed = await this.#host.changeState(keyName, (state, { self }) =>
        this.#steps.replaceKey(state, keyName, found, claimOf(self)),
      );
      if (!isClaimed) return undefined;
    }
    try {
      await this.insert(name, job);
    } catch (error) {
      await this.#withdraw(name, keyName, id);
      throw error;
    }
    return { id, added: true };
  }

  /** Whether the job that a key names is in the queue. Removes it if it is done. */
  async #isThere({ place }: KeyState): Promise<boolean> {
    const job = await this.#jobAt(place);
    if (job?.phase === 'done') await this.continue(place, job);
    return job !== undefined && job.phase !== 'done';
  }

  /** Whether the key still names what was found and its adder is gone. */
  #isOver(keyName: string, { id, place, client }: KeyState): Promise<boolean> {
    return this.#host.changeState(keyName, (state, look): StateChange<boolean> => {
      const now = keyIn(state, keyName);
      return { result: now?.id === id && now.place === place && look.isGone(client) };
    });
  }

  /** Frees a key whose job could not be inserted. If that fails too, the key waits for its end. */
  async #withdraw(name: string, keyName: string, id: string): Promise<void> {
    try {
      if ((await this.#jobAt(name)) !== undefined) return;
      await this.#host.changeState(keyName, (state) => this.#steps.freeKey(state, keyName, id));
    } catch {
      // The error of the insertion is the one to report.
    }
  }

  #jobAt(name: string): Promise<JobState | undefined> {
    return this.#host.changeState(name, (state) => ({ result: jobIn(state, name) }));
  }

  isHolderGone(name: string, holder: number): Promise<boolean> {
    return this.#host.changeState(name, (_, look) => ({ result: look.isGone(holder) }));
  }

  /**
   * Takes the job if it is free. If a step of a move or of a completion is due, does that; such a
   * job is met again at its new place.
   */
  async take(name: string, leaseMs: number): Promise<JobState | undefined> {
    const { taken, job } = await this.#host.changeState(name, (state, look) =>
      this.#steps.takeJob(state, look, name, this.places, leaseMs),
    );
    if (taken) return job;
    if (job !== undefined) await this.continue(name, job);
    return undefined;
  }

  extend(name: string, token: number, leaseMs: number): Promise<boolean> {
    return this.#host.changeState(name, (state, look) =>
      this.#steps.extendJob(state, look, name, token, leaseMs),
    );
  }

  async complete(name: string, token: number): Promise<boolean> {
    const job = await this.#host.changeState(name, (state) =>
      this.#steps.completeJob(state, name, token),
    );
    if (job !== undefined) await this.continue(name, job);
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

  /** Does what is left to do for a job that is done, moving or arriving. */
  async continue(name: string, job: JobState): Promise<void> {
    if (job.phase === 'moving') await this.#move(name, job);
    if (job.phase === 'arriving') await this.#settle(name, job);
    if (job.phase !== 'done') return;
    await this.#freeKey(name, job.key);
    await this.#host.changeState(name, (state) => this.#steps.leave(state, name, 'done'));
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
    await this.#host.changeState(keyName, (state) =>
      this.#steps.moveKey(state, keyName, from, to),
    );
  }
}
