import { LocalPool } from '../../../../pool/local-pool.ts';
import type { PoolHandle } from '../../../../store/api.ts';
import { poolOf } from '../../../../store/handle.ts';
import { attachInMemory, createInMemory } from '../../../../store/places/memory-pools.ts';
import { type Scope, SMALL } from '../../../../store/tests/support/pools.ts';
import type { Index } from '../../../contract.ts';
import { createStore, openIndex } from '../../../kinds.ts';
import { CHIME, type ChimeIndex } from '../../chime.ts';
import type { ChimeShape } from '../../geometry.ts';
import type { ChimeRequest } from '../../request.ts';
import type { ChimeScan } from '../../scan/scan.ts';

/** A client of a CHIME tree whose operations a test drives step by step. */
export interface Client {
  pool: LocalPool;
  index: ChimeIndex;
  handle: PoolHandle;
}

/** A new `memory:` pool with one tree, or another client of one. Within an operation's epoch. */
export function clientOf(
  scope: Scope,
  shape: Partial<Omit<ChimeShape, 'seed'>>,
  handle?: PoolHandle,
  size = SMALL.size,
): Client {
  const buffers = handle === undefined ? undefined : poolOf(handle);
  const memory = typeof buffers === 'object' ? buffers : undefined;
  const created = memory ? undefined : createInMemory({ ...SMALL, size });
  const { fabric, parameters, source } = created ?? attachInMemory(memory ?? []);
  const pool = new LocalPool(fabric, parameters, source);
  pool.join('by hand');
  scope.after(() => pool.close());
  // A fixed seed: which keys share homes and fingerprints is the same in every run.
  const full = CHIME.parameters({ ...shape }, 0, 12_345);
  const entry = pool.run(createStore(pool, 'default', CHIME, full));
  const index: Index = pool.run(openIndex(pool, entry));
  pool.enter();
  scope.after(() => pool.exit());
  return { pool, index: index as ChimeIndex, handle: created?.handle ?? handle ?? '' };
}

/** A request with the key, and with the value for a write. */
export function requestFor(
  { index }: Client,
  key: string | Uint8Array,
  value?: string,
  version = 1,
): ChimeRequest {
  const request = index.newRequest();
  if (value === undefined) request.setKey(key, index.hashSeed);
  else index.records.encode(request, key, value, index.hashSeed, version);
  return request;
}

/** Text of the value that the request found. */
export function foundText({ found, foundValueAt, foundValueBytes }: ChimeRequest): string {
  return Buffer.from(found.u8.subarray(foundValueAt, foundValueAt + foundValueBytes)).toString();
}

/** Keys as hexadecimal digits with their values. */
export function scanned({ pool }: Client, scan: ChimeScan): [string, string][] {
  const found: [string, string][] = [];
  while (!scan.done) {
    pool.run(
      scan.next((request, keyBytes) => {
        const key = Buffer.from(request.outgoing.u8.subarray(16, 16 + keyBytes));
        found.push([key.toString('hex'), foundText(request)]);
      }),
    );
  }
  return found;
}

/** What a check of the tree finds, and how many records there are. */
export function checked({ pool, index }: Client): { problems: string[]; records: number } {
  const problems: string[] = [];
  const reached = new Set<number>();
  const records = pool.run(
    index.check({
      problem: (text) => problems.push(text),
      reachable: (address) => {
        if (reached.has(address)) problems.push(`block ${address} is reached twice`);
        reached.add(address);
      },
      progress: () => {},
    }),
  );
  return { problems, records };
}

/** The operations of some clients count as those of clients that are gone. */
export function areGoneFor(client: Client, ...dead: readonly Client[]): void {
  const ids = dead.map(({ pool }) => pool.membership.id);
  client.pool.membership.liveness = (row) => (ids.includes(row.id) ? 'gone' : 'alive');
  client.index.tree.patience = { spins: 0, polls: 1, microseconds: 1 };
}
