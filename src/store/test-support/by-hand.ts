import { raceShape } from '../../indexes/race/geometry.ts';
import { buildRace, openRace, RACE_KIND, type RaceIndex } from '../../indexes/race/race.ts';
import type { RaceRequest } from '../../indexes/race/table.ts';
import { Pool } from '../../pool/pool.ts';
import type { Batch, Fabric, Operation } from '../../verbs/index.ts';
import type { OpenOptions, PoolHandle } from '../api.ts';
import { attachInMemory, createInMemory } from '../location.ts';
import { type Scope, SMALL } from './pools.ts';

/** A client whose operations a test drives step by step. */
export interface ByHand {
  pool: Pool;
  index: RaceIndex;
  handle: PoolHandle;
}

/** A new `memory:` pool with one RACE table, or another client of one. */
export function clientByHand(
  scope: Scope,
  options: OpenOptions & { handle?: PoolHandle } = {},
): ByHand {
  const { handle, ...wishes } = options;
  const memory = typeof handle === 'object' ? handle.memory : undefined;
  const created = memory ? undefined : createInMemory({ ...SMALL, ...wishes });
  const { fabric, parameters, source } = created ?? attachInMemory(memory ?? []);
  const pool = new Pool(fabric, parameters, source);
  pool.join('by hand');
  scope.after(() => pool.close());
  // A fixed seed: which keys share buckets and fingerprints is the same in every run.
  const shape = raceShape(wishes.race ?? {}, SMALL.size ?? 0, 12_345);
  const { associativity, groups, initialDepth, maxDepth, seed } = shape;
  const numbers = [associativity, groups, initialDepth, maxDepth, seed, 0, 0, 0];
  const build = (id: number) => buildRace(pool, shape, id);
  const entry = pool.run(pool.catalog.findOrCreate('default', RACE_KIND, numbers, build));
  const index = pool.run(openRace(pool, shape, entry.id, entry.root));
  return { pool, index, handle: created?.handle ?? handle ?? '' };
}

/** A request with the key, and with the value for a write. */
export function requestFor(
  { index }: ByHand,
  key: string,
  value?: string,
  version = 1,
): RaceRequest {
  const request = index.newRequest();
  if (value === undefined) request.setKey(key, index.hashSeed);
  else index.table.records.encode(request, key, value, index.hashSeed, version);
  return request;
}

/** Text of the value that the request found. */
export function foundText({ found, foundValueAt, foundValueBytes }: RaceRequest): string {
  return Buffer.from(found.u8.subarray(foundValueAt, foundValueAt + foundValueBytes)).toString();
}

const KIND_NAMES = ['READ', 'WRITE', 'CAS', 'FAA', 'PAUSE'];

/** Runs an operation to its end and returns the kinds of verbs of each of its round trips. */
export function traced<T>(fabric: Fabric, operation: Operation<T>): { trips: string[]; value: T } {
  const trips: string[] = [];
  for (;;) {
    const step = operation.next();
    if (step.done) return { trips, value: step.value };
    trips.push(kindsOf(step.value));
    fabric.execute(step.value);
  }
}

export function kindsOf({ kind, length }: Batch): string {
  return Array.from(kind.subarray(0, length), (each) => KIND_NAMES[each]).join(' ');
}

/** Executes so many round trips of an operation and prepares the next one, without executing it. */
export function advance(fabric: Fabric, operation: Operation<unknown>, steps: number): Batch {
  for (let i = 0; ; i++) {
    const step = operation.next();
    if (step.done) throw new Error('the operation ended early');
    if (i === steps) return step.value;
    fabric.execute(step.value);
  }
}
