import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type ByHand,
  clientOf,
  requestFor,
  stopAfter,
} from '../../../../store/tests/support/by-hand.ts';
import type { Scope } from '../../../../store/tests/support/pools.ts';
import type { Operation } from '../../../../verbs/index.ts';
import { CHIME, type ChimeIndex } from '../../../chime/chime.ts';
import { ALWAYS } from '../../../contract.ts';
import { HOPSCOTCH, HopscotchIndex } from '../../../hopscotch/hopscotch.ts';
import type { LeafClient } from '../leaf-client.ts';

type Either = ChimeIndex | HopscotchIndex;
type Client = ByHand<Either>;

const SPAN = 8;
const WISHES = { span: SPAN, neighbourhood: 2 };

function insertion(client: Client, key: string): Operation<number> {
  return client.index.write(requestFor(client, key, 'value'), ALWAYS);
}

function leavesOf({ index }: Client): LeafClient {
  const leaves: unknown = index instanceof HopscotchIndex ? index.table : index.tree;
  return leaves as LeafClient;
}

/** Stops the writer of one key more after each of its verbs; how often it held a leaf then. */
function heldBeside(kind: typeof CHIME | typeof HOPSCOTCH, t: Scope, inserted: number): number {
  let held = 0;
  for (let verbs = 0; ; verbs++) {
    const writer = clientOf<Either>(kind, t, WISHES, {});
    const other = clientOf<Either>(kind, t, WISHES, { handle: writer.handle });
    for (const { pool } of [writer, other]) pool.enter();
    for (let i = 0; i < inserted; i++) writer.pool.run(insertion(writer, `key ${i}`));
    leavesOf(other).lockTimeoutMs = 0;
    leavesOf(other).patience = { spins: 0, polls: 1, microseconds: 1 };
    const done = stopAfter(writer, insertion(writer, 'one more'), verbs);
    const { records, subtables } = other.pool.run(other.index.shape());
    // Of a leaf that is split the moved half can be missed, or be met twice.
    const told = `${records} of ${inserted} after ${verbs} verbs`;
    assert.ok(records >= inserted - SPAN && records <= inserted + SPAN, told);
    assert.ok(subtables > 4);
    if (Object.values(leavesOf(other).retries).some((count) => count > 0)) held++;
    for (const { pool } of [writer, other]) pool.exit();
    if (done < verbs) return held;
  }
}

for (const kind of [CHIME, HOPSCOTCH]) {
  test(`${kind.manifest.name}: figures are told beside a writer that stands still`, (t) => {
    // The key after 47 splits a leaf.
    for (const inserted of [40, 47]) {
      assert.ok(heldBeside(kind, t, inserted) > 0, 'no leaf was being changed');
    }
  });
}
