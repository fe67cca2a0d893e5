import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Request } from '../../../indexes/substrates/request.ts';
import type { Attachment } from '../../attachment.ts';
import { OldTables } from '../old-tables.ts';

const LACKING = { catalog: 1, units: 90, count: 2 };

/** Old tables of a pool in which none comes free, whatever is evicted. */
function emptiedInVain(): { tables: OldTables; evictions: () => number } {
  let evicted = 0;
  const pool = {
    allocator: { sizeClass: () => ({ cache: [] }) },
    reclamation: { waitingOf: () => 0 },
  };
  const evictor = {
    *evictOld() {
      yield* [];
      evicted++;
      return 1;
    },
    *areYoungBeside() {
      yield* [];
      return true;
    },
  };
  const attachment = { pool, width: 1 } as unknown as Attachment;
  return { tables: new OldTables(attachment, evictor), evictions: () => evicted };
}

const written = (isInTable: boolean) => ({ isInTable }) as Request;

test('writes stop emptying old tables when none comes free', () => {
  const { tables, evictions } = emptiedInVain();
  while (!tables.isResting) {
    const before = evictions();
    assert.equal(tables.empty(written(true), LACKING).next().value, false);
    assert.ok(evictions() - before <= 12);
  }
  assert.ok(!tables.isPaid);
  assert.ok(evictions() >= 256);
});

test('a rest ends after some writes, also of records that have blocks of their own', () => {
  const { tables } = emptiedInVain();
  while (!tables.isResting) tables.empty(written(false), LACKING).next();
  for (let i = 0; i < 2; i++) assert.equal(tables.pay(written(false)).next().value, false);
  assert.ok(!tables.isResting);
});

test('records that have blocks of their own pay for no table', () => {
  const { tables, evictions } = emptiedInVain();
  tables.empty(written(true), LACKING).next();
  assert.ok(tables.isPaid);
  const before = evictions();
  tables.pay(written(false)).next();
  assert.equal(evictions(), before);
  tables.pay(written(true)).next();
  assert.equal(evictions(), before + 3);
});
