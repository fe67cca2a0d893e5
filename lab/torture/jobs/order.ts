/** What a worker of the torture of a job queue is to do. */
export interface JobOrder {
  readonly url: string;
  readonly log: string;
  readonly seed: number;
  /** The jobs that it adds: the numbers from `from` on, below `to`. */
  readonly from: number;
  readonly to: number;
  /** It kills itself at one in so many doorbells; 0 for never. */
  readonly suicideEvery: number;
  /** Plants a bug: `lose` drops some jobs, `again` adds some again. */
  readonly canary: string;
}

export const QUEUE = { store: 'jobs', index: 'chime' } as const;
/** A store in which each job that is held has its holder's process id. */
export const MARKS = { store: 'marks' } as const;
