import { closeSync, openSync, readFileSync, writeSync } from 'node:fs';

/** What a worker notes of a job. What it has noted outlives its `kill -9`. */
export const ADDING = 1;
export const ADDED = 2;
export const BEGUN = 3;
export const DONE = 4;
/** It failed on purpose, and comes again. */
export const FAILED = 5;
/** The queue says that the lease was over. */
export const LOST = 6;
/** A worker that lives held the job as well. */
export const DOUBLE = 7;
/** A worker begins; the event names no job. */
export const STARTED = 8;

const EVENT_BYTES = 8;

/** A file of events, which one worker after the other appends to. */
export class EventLog {
  readonly #file: number;

  constructor(path: string) {
    this.#file = openSync(path, 'a');
  }

  note(event: number, jobs: readonly number[]): void {
    if (jobs.length === 0) return;
    writeSync(this.#file, new Int32Array(jobs.flatMap((job) => [event, job])));
  }

  close(): void {
    closeSync(this.#file);
  }
}

/** Calls `visit` with each event of a log, in order. */
export function readEvents(path: string, visit: (event: number, job: number) => void): void {
  const bytes = readFileSync(path);
  for (let at = 0; at + EVENT_BYTES <= bytes.length; at += EVENT_BYTES) {
    visit(bytes.readInt32LE(at), bytes.readInt32LE(at + 4));
  }
}

/** What the logs of all workers say together. */
export interface Findings {
  added: number;
  /** Additions under way when their worker was killed, which may have happened. */
  uncertain: number;
  done: number;
  /** Completions under way when their worker was killed, which have happened. */
  unheard: number;
  failed: number;
  lostLeases: number;
  problems: string[];
}

/** Judges the logs after the queue has been emptied. */
export function judge(paths: readonly string[], jobs: number): Findings {
  const [added, adding, done, open] = [0, 1, 2, 3].map(() => new Uint8Array(jobs));
  const found = { added: 0, uncertain: 0, done: 0, unheard: 0, failed: 0, lostLeases: 0 };
  const problems: string[] = [];
  for (const path of paths) {
    let held = new Set<number>();
    const leaveOpen = () => {
      for (const job of held) open[job] = 1;
      held = new Set();
    };
    readEvents(path, (event, job) => {
      if (event === STARTED) leaveOpen();
      if (event === ADDING) adding[job] = 1;
      if (event === ADDED) added[job] = 1;
      if (event === BEGUN) held.add(job);
      if (event === DONE || event === FAILED || event === LOST) held.delete(job);
      if (event === DONE && ++done[job] === 2) problems.push(`job ${job} was acknowledged twice`);
      if (event === FAILED) found.failed++;
      if (event === LOST) found.lostLeases++;
      if (event === DOUBLE) problems.push(`job ${job} was handed out while its holder lived`);
    });
    leaveOpen();
  }
  for (let job = 0; job < jobs; job++) {
    found.added += added[job];
    found.done += done[job];
    if (adding[job] === 0) problems.push(`job ${job} was never added`);
    if (added[job] === 0) found.uncertain++;
    else if (done[job] === 0 && open[job] === 1) found.unheard++;
    else if (done[job] === 0) problems.push(`job ${job} is lost`);
  }
  return { ...found, problems };
}
