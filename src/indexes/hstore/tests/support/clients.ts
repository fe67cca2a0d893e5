import { HEADER_BYTES } from '../../../../records/layout.ts';
import {
  type ByHand,
  type ByHandOptions,
  clientOf,
  foundText,
  requestFor,
} from '../../../../store/tests/support/by-hand.ts';
import type { Scope } from '../../../../store/tests/support/pools.ts';
import type { Operation } from '../../../../verbs/index.ts';
import type { KeyRange } from '../../../contract.ts';
import { ALWAYS } from '../../../contract.ts';
import type { Candidacy, Coordinator } from '../../election.ts';
import { HSTORE, type HStoreIndex } from '../../hstore.ts';

export type Client = ByHand<HStoreIndex>;

/** So few buckets that keys share them. */
export const SHAPE = { buckets: 4, rows: 16, log: 16 };
/** Nothing takes time, and a client that stands still is soon overtaken. */
const PATIENCE = {
  polls: 1,
  stand: 20,
  lapse: 5000,
  pollsMax: 10_000,
  waitsMax: 10_000,
  microseconds: 0,
  longMicroseconds: 0,
};

/** A client of a new pool, or of the one of a handle. */
export function newClient(
  scope: Scope,
  options: ByHandOptions = {},
  { shape = SHAPE, patience = {} }: { shape?: object; patience?: Partial<typeof PATIENCE> } = {},
): Client {
  const client = clientOf<HStoreIndex>(HSTORE, scope, shape, options);
  client.index.table.patience = { ...PATIENCE, ...patience };
  return client;
}

export function put({ pool, index }: Client, key: string, value: string): void {
  pool.run(index.write(requestFor({ index }, key, value), ALWAYS));
}

export function* getting({ index }: Client, key: string): Operation<string | undefined> {
  const request = requestFor({ index }, key);
  if (!(yield* index.search(request))) return undefined;
  yield* index.records.complete(request);
  return foundText(request);
}

export function get(client: Client, key: string): string | undefined {
  return client.pool.run(getting(client, key));
}

/** All keys, in the order of a scan. */
export function* scanned({ index }: Client, range: KeyRange = {}): Operation<string[]> {
  const keys: string[] = [];
  const scan = index.scan(range);
  while (!scan.done) {
    yield* scan.next(({ outgoing }, bytes) => {
      keys.push(Buffer.from(outgoing.u8.slice(HEADER_BYTES, HEADER_BYTES + bytes)).toString());
    });
  }
  return keys;
}

/** Says what a test tells it to. */
export class Elections implements Coordinator {
  readonly candidacy: { token: number | undefined } = { token: undefined };

  stand(): Candidacy {
    return this.candidacy;
  }

  async close(): Promise<void> {}
}
