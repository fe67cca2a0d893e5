import type { Index } from '../../../src/indexes/contract.ts';
import { openIndex } from '../../../src/indexes/kinds.ts';
import type { CatalogEntry } from '../../../src/pool/catalog.ts';
import type { LocalPool } from '../../../src/pool/local-pool.ts';
import { checkStores } from '../../../src/store/administration/check.ts';
import { Caller, type CallLog } from '../schedules/caller.ts';
import { VerificationFailure } from './failure.ts';
import { type CallRecord, encodeState, type KeyState, timeline } from './history.ts';
import { checkHistory } from './linearizability.ts';

/** Once every client is idle and dead ones are recovered, all retired blocks must be freed. */
export function auditReclamation(living: readonly LocalPool[]): void {
  for (const pool of living) {
    pool.recoverGone();
    pool.run(pool.reclamation.goOffline());
  }
  for (const pool of living) {
    for (let i = 0; i < 4; i++) pool.run(pool.reclamation.collect());
    const { retired } = pool.reclamation;
    if (retired > 0) {
      const name = `client ${pool.membership.id}`;
      throw new VerificationFailure('liveness', `${retired} blocks of ${name} are never freed`);
    }
  }
}

/** Whether the structure is intact, as seen by a client that has just attached. */
export function auditStructure(pool: LocalPool): void {
  const open = (entry: CatalogEntry) => openIndex(pool, entry);
  pool.enter();
  const { problems } = pool.run(checkStores(pool, 'verification', open));
  pool.exit();
  if (problems.length > 0) throw new VerificationFailure('structure', problems.join('; '));
}

/** Searches every key once more, and logs the results, which must fit the history. */
export function auditKeys(pool: LocalPool, index: Index, log: CallLog): void {
  const caller = new Caller('audit', index, log);
  log.keys.forEach((_, key) => {
    pool.run(caller.perform({ key, kind: 'search' }));
  });
}

/** Whether, for each key, the calls on it could have happened one after the other. */
export function auditHistories(records: readonly CallRecord[], keys: readonly string[]): void {
  for (let key = 0; key < keys.length; key++) {
    const ofKey = records.filter(
      ({ call, refusedBy, result }) =>
        call.key === key &&
        refusedBy === undefined &&
        (result !== undefined || call.kind !== 'search'),
    );
    const verdict = checkHistory<KeyState>(ofKey, undefined, encodeState);
    if (verdict.linearizable) continue;
    const explained = new Set(verdict.order);
    const rest = ofKey.filter((_, i) => !explained.has(i));
    throw new VerificationFailure(
      'linearizability',
      `the history of ${keys[key]} cannot be put in order:\n${timeline(ofKey, keys)}\n` +
        `  the longest order ends in ${encodeState(verdict.state)} and leaves out\n` +
        timeline(rest, keys),
    );
  }
}
