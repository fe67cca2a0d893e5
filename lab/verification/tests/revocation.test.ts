import assert from 'node:assert/strict';
import { test } from 'node:test';
import { unpackChunk } from '../../../src/pool/memory/chunk-word.ts';
import { Stage } from './support/stage.ts';

/** A client that stands still while it is idle, and is declared dead by others all the same. */

test('a client that was declared dead does not clear the epoch of whoever has its row now', () => {
  const stage = new Stage();
  const other = stage.client();
  const frozen = stage.client();
  const row = frozen.pool.membership.id;
  stage.kill(frozen);
  other.pool.recoverGone();
  stage.revive(row);
  const next = stage.client();
  assert.equal(next.pool.membership.id, row);
  stage.put(next, 'a');
  const announced = stage.epochOf(next);
  assert.ok(announced > 0n);
  // An epoch of 0 would say that this client holds no address, and what it reads would be re-used.
  frozen.pool.close();
  assert.equal(stage.epochOf(next), announced);
});

test('a client that was declared dead frees nothing that a sweep may have brought back', () => {
  const stage = new Stage();
  const other = stage.client();
  const frozen = stage.client();
  stage.put(other, 'a');
  const block = stage.addressOf(other, 'a');
  stage.remove(frozen, 'a');
  frozen.pool.run(frozen.pool.reclamation.goOffline());
  assert.equal(frozen.pool.reclamation.retired, 1);
  stage.kill(frozen);
  stage.sweep(other);
  // The sweep brought the block back, so it is used again.
  for (let i = 0; i < 6; i++) stage.put(other, `b${i}`);
  const reused = [0, 1, 2, 3, 4, 5].map((i) => stage.addressOf(other, `b${i}`));
  assert.ok(reused.includes(block), `${block} is not among ${reused}`);
  other.pool.run(other.pool.reclamation.goOffline());
  // The timer of an idle client.
  frozen.pool.run(frozen.pool.reclamation.collect());
  assert.ok(stage.isClaimed(other, block, 1), 'a block in use is marked free');
});

test('a client that was declared dead adopts no chunks, which nobody would take over again', () => {
  const stage = new Stage();
  const other = stage.client();
  const frozen = stage.client();
  stage.put(frozen, 'a');
  frozen.pool.run(frozen.pool.reclamation.goOffline());
  stage.kill(frozen);
  other.pool.recoverGone();
  assert.throws(() => stage.sweep(frozen), { code: 'SW_REVOKED' });
  const owners = other.pool
    .run(other.pool.chunks.words())
    .map(([, word]) => unpackChunk(word).owner);
  assert.ok(!owners.includes(frozen.pool.membership.id), `${owners}`);
});
