import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  areGoneFor,
  type Client,
  checked,
  clientOf,
  requestFor,
} from '../../../src/indexes/chime/tests/support/client.ts';
import { ALWAYS } from '../../../src/indexes/contract.ts';
import type { Pool } from '../../../src/pool/pool.ts';
import { rounds } from '../../../src/random/tests/support/rounds.ts';
import { stopAfter } from '../../../src/store/tests/support/by-hand.ts';
import type { Scope } from '../../../src/store/tests/support/pools.ts';
import { copyLate, settleNothing } from '../canaries/leaf.ts';

/** Bugs that take two clients that stop at the right verbs: random schedules hardly meet them. */
const SHAPE = { span: 4, neighbourhood: 2, fanout: 2, inlineBytes: 24 };
const KEYS = Array.from({ length: 10 }, (_, i) => `key ${10 + ((i * 7) % 10)}`);
/** The writer's insertion of the last key splits a leaf. */
const LAST = 5;

const put = (client: Client, key: string) =>
  client.index.write(requestFor(client, key, `${key} one`), ALWAYS);

/** Whether what a reader finds at the end is what was written, whole. */
function isWhole(reader: Client): boolean {
  try {
    for (const key of KEYS) reader.pool.run(put(reader, key));
    const { problems, records } = checked(reader);
    return problems.length === 0 && records === KEYS.length;
  } catch {
    return false;
  }
}

/** A repairer dies after one in so many of its verbs: other ones for each verb of the writer. */
const STRIDE = rounds(6, 3);

/** A writer dies after any verb of its operation, and a repairer after some of its own. */
function bothDie(t: Scope, plant: (pool: Pool) => void): boolean {
  for (let verbs = 1; ; verbs++) {
    for (let later = 1 + (verbs % STRIDE); ; later += STRIDE) {
      const writer = clientOf(t, SHAPE);
      const [repairer, reader] = [0, 1].map(() => clientOf(t, SHAPE, writer.handle));
      for (const key of KEYS.slice(0, LAST)) writer.pool.run(put(writer, key));
      const done = stopAfter(writer, put(writer, KEYS[LAST]), verbs);
      if (done < verbs) return true;
      plant(repairer.pool);
      areGoneFor(repairer, writer);
      const repaired = stopAfter(repairer, put(repairer, KEYS[LAST]), later);
      areGoneFor(reader, writer, repairer);
      if (!isWhole(reader)) return false;
      if (repaired < later) break;
    }
  }
}

/** A writer dies after any verb; its row is cleaned up, and another client joins and writes. */
function rowIsTaken(t: Scope, plant: (pool: Pool) => void): boolean {
  for (let verbs = 1; ; verbs++) {
    const writer = clientOf(t, SHAPE);
    const cleaner = clientOf(t, SHAPE, writer.handle);
    for (const key of KEYS.slice(0, LAST)) writer.pool.run(put(writer, key));
    const done = stopAfter(writer, put(writer, KEYS[LAST]), verbs);
    if (done < verbs) return true;
    plant(cleaner.pool);
    areGoneFor(cleaner, writer);
    cleaner.pool.exit();
    cleaner.pool.recoverGone();
    cleaner.pool.enter();
    const newcomer = clientOf(t, SHAPE, writer.handle);
    assert.equal(newcomer.pool.membership.id, writer.pool.membership.id);
    areGoneFor(newcomer);
    for (const key of KEYS.slice(0, 2)) stopAfter(newcomer, put(newcomer, key), 3);
    areGoneFor(cleaner, writer, newcomer);
    if (!isWhole(cleaner)) return false;
  }
}

const nothing = () => {};

test('a repairer that dies leaves what it was doing to the next one', (t) => {
  assert.ok(bothDie(t, nothing));
  assert.ok(!bothDie(t, copyLate), 'the canary: the lock is taken over before the copy is written');
});

test('a row is given away when its intents are settled', (t) => {
  assert.ok(rowIsTaken(t, nothing));
  assert.ok(!rowIsTaken(t, settleNothing), 'the canary: nothing is settled');
});
