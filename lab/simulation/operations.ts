import { IF_ABSENT, IF_PRESENT } from '../../src/indexes/contract.ts';
import type { Request } from '../../src/indexes/substrates/request.ts';
import type { Operation } from '../../src/verbs/index.ts';
import type { KeyGenerator, ValueGenerator } from '../workloads/index.ts';
import type { PoolClient } from './pool-client.ts';

export const KINDS = ['insert', 'search', 'delete', 'update'] as const;
export type Kind = (typeof KINDS)[number];

export interface Generators {
  readonly keys: KeyGenerator;
  readonly values: ValueGenerator;
}

/** An operation of this kind on a record. */
export function operationOn(
  kind: Kind,
  { keys, values }: Generators,
  { index, records }: PoolClient,
  request: Request,
  record: number,
): Operation<unknown> {
  const key = keys.bytes(record);
  if (kind === 'search' || kind === 'delete') {
    request.setKey(key, index.records.seed);
    return kind === 'search' ? index.search(request) : index.remove(request);
  }
  records.encode(request, key, values.buffer(record, 1), 0);
  return index.write(request, kind === 'insert' ? IF_ABSENT : IF_PRESENT);
}

/** In these experiments every operation must succeed; throws otherwise. */
export function mustHaveWorked(kind: Kind, result: unknown): void {
  if (result === true || (typeof result === 'number' && result > 0)) return;
  throw new Error(`the ${kind} of a record failed: ${String(result)}`);
}
