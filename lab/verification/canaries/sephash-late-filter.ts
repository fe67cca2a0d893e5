import type { Condition, Outcome } from '../../../src/indexes/contract.ts';
import type { SepHashRequest } from '../../../src/indexes/sephash/request.ts';
import { SEPHASH, SepHashIndex } from '../../../src/indexes/sephash/sephash.ts';
import { SepHashTable } from '../../../src/indexes/sephash/table.ts';
import type { LocalPool } from '../../../src/pool/local-pool.ts';
import type { Operation } from '../../../src/verbs/index.ts';
import type { Canary } from '../canary.ts';

export const sepHashLateFilterCanary: Canary = {
  name: 'a SepHash write that returns before its filter bit is set',
  caughtBy: 'linearizability',
  kind: SEPHASH,
  index: (index: SepHashIndex, pool) => new LateFilter(index, pool),
};

/** The published order, with a bit that is so late that it never comes. */
class LateFilter extends SepHashIndex {
  readonly #blind: SepHashTable;

  constructor({ table }: SepHashIndex, pool: LocalPool) {
    super(table);
    const { geometry, directory, records, catalog } = table;
    this.#blind = new SepHashTable(geometry, directory, records, pool, catalog);
    this.#blind.techniques.filter = false;
  }

  override write(request: SepHashRequest, condition: Condition, expected = 0): Operation<Outcome> {
    return new SepHashIndex(this.#blind).write(request, condition, expected);
  }
}
