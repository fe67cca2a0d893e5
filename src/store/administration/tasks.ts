import type { CheckSink } from '../../indexes/contract.ts';
import { openIndex } from '../../indexes/kinds.ts';
import type { CatalogEntry } from '../../pool/catalog.ts';
import type { Pool } from '../../pool/pool.ts';
import type { Operation } from '../../verbs/index.ts';
import type { OpenOptions } from '../api.ts';
import { inSection } from '../attachment.ts';
import type { CheckOptions, CheckReport, DropReport, PoolReport } from '../reports.ts';
import { makeStore } from '../store-in-pool.ts';
import { checkStores } from './check.ts';
import { freeDropped, markDropped } from './drop-store.ts';
import { reportPool } from './inspect.ts';
import { lookAtIndex, lookAtPool } from './look.ts';

/** What tasks need of the client that they are done by, which has no store open. */
export interface PoolClient extends Pick<CheckSink, 'each'> {
  readonly pool: Pool;
  /** The pool, without a store. */
  readonly url: string;
  enter(): Operation<void>;
  exit(): void;
  /** What a pool itself does not know of the memory that it is in. */
  memory(): Operation<PlaceReport>;
  /** Clients by which this thread has stores open find out at once what was closed or dropped. */
  lookAgain(): Operation<void>;
}

type PlaceReport = Pick<PoolReport, 'path' | 'hugePages' | 'whyNoHugePages' | 'fabric'>;

/**
 * What is done to a pool as a whole, on every fabric: by name, because each driver has operations
 * in a form of its own (see scripts/derive.ts).
 */
const TASKS = {
  inspect: (client: PoolClient) => inSection(client, () => inspectPool(client)),
  check: (client: PoolClient, options: CheckOptions) =>
    inSection(client, () => checkPool(client, options)),
  drop: dropStore,
  make: ({ pool }: PoolClient, options: OpenOptions) => makeStore(pool, options),
  look: (client: PoolClient) => inSection(client, () => lookAtPool(client.pool)),
  picture: (client: PoolClient, store: string, partsMax: number) =>
    inSection(client, () => lookAtIndex(client.pool, store, partsMax)),
};

type Tasks = typeof TASKS;
export type TaskName = keyof Tasks;
export type TaskResult<N extends TaskName> =
  ReturnType<Tasks[N]> extends Operation<infer T> ? T : never;
export type TaskArguments<N extends TaskName> =
  Parameters<Tasks[N]> extends [PoolClient, ...infer A] ? A : never;

export function taskNamed<N extends TaskName>(name: N) {
  return TASKS[name] as (client: PoolClient, ...args: unknown[]) => Operation<TaskResult<N>>;
}

/** A client of its own in a pool. */
export interface OwnClient {
  perform<N extends TaskName>(
    name: N,
    ...args: TaskArguments<N>
  ): TaskResult<N> | Promise<TaskResult<N>>;
  close(): void | Promise<void>;
}

function* inspectPool(client: PoolClient): Operation<PoolReport> {
  return yield* reportPool(client.pool, { url: client.url, ...(yield* client.memory()) });
}

function checkPool({ pool, url, each }: PoolClient, options: CheckOptions): Operation<CheckReport> {
  const open = (entry: CatalogEntry) => openIndex(pool, entry);
  return checkStores(pool, url, open, each ? { ...options, each } : options);
}

function* dropStore(client: PoolClient, store: string, force: boolean): Operation<DropReport> {
  // First so that they let go of stores that were closed, then so that they hear of the drop.
  yield* client.lookAgain();
  const dropped = yield* markDropped(client.pool, client.url, store, force);
  yield* client.lookAgain();
  return yield* freeDropped(client.pool, dropped);
}
