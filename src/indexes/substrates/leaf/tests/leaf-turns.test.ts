import assert from 'node:assert/strict';
import { test } from 'node:test';
import { StepwellError } from '../../../../errors.ts';
import type { Operation } from '../../../../verbs/index.ts';
import { FullAhead, type LeafTurn, LeafTurns } from '../leaf-turns.ts';

const [LEAF, OTHER] = [64, 128];

/** Each look takes a millisecond. */
function newTurns(): LeafTurns {
  let now = 0;
  return new LeafTurns(
    () => now++,
    () => 1000,
  );
}

function newTurn(): LeafTurn {
  return { inserts: false, turnAt: 0, hasTurn: false, turnDone: false, turnRefused: undefined };
}

/** Whether the operation ends with its next step. */
function ends(operation: Operation<unknown>): boolean {
  return operation.next().done === true;
}

test('operations on one leaf have their turns in the order in which they came', () => {
  const turns = newTurns();
  const [first, second, third, elsewhere] = [0, 1, 2, 3].map(newTurn);
  assert.ok(ends(turns.take(first, LEAF)));
  const [two, three] = [turns.take(second, LEAF), turns.take(third, LEAF)];
  assert.ok(!ends(two) && !ends(three));
  assert.ok(ends(turns.take(elsewhere, OTHER)), 'another leaf is free');
  turns.give(first);
  assert.ok(!ends(three) && ends(two));
  turns.give(second);
  assert.ok(ends(three));
  turns.give(third);
  assert.ok(ends(turns.take(first, LEAF)));
});

test('an operation that stops waiting holds up no other', () => {
  const turns = newTurns();
  const [first, second, third] = [0, 1, 2].map(newTurn);
  assert.ok(ends(turns.take(first, LEAF)));
  const [two, three] = [turns.take(second, LEAF), turns.take(third, LEAF)];
  assert.ok(!ends(two) && !ends(three));
  turns.give(second);
  assert.ok(!ends(three));
  turns.give(first);
  assert.ok(ends(three));
});

test('a full leaf is an error of the insertions that wait for it, and of no others', () => {
  const turns = newTurns();
  const [first, insertion, removal] = [0, 1, 2].map(newTurn);
  insertion.inserts = true;
  assert.ok(ends(turns.take(first, LEAF)));
  const [two, three] = [turns.take(insertion, LEAF), turns.take(removal, LEAF)];
  assert.ok(!ends(two) && !ends(three));
  turns.refuseInsertions(first, new StepwellError('SW_POOL_FULL', 'full'));
  assert.throws(() => two.next(), FullAhead);
  assert.ok(!ends(three));
  turns.give(first);
  assert.ok(ends(three));
});

test('a stuck lock is an error of all that wait for it, and of none that come later', () => {
  const turns = newTurns();
  const [first, second, late] = [0, 1, 2].map(newTurn);
  assert.ok(ends(turns.take(first, LEAF)));
  const two = turns.take(second, LEAF);
  assert.ok(!ends(two));
  const error = new StepwellError('SW_CONTENTION', 'stuck');
  turns.refuse(first, error);
  assert.throws(() => two.next(), error);
  turns.give(second);
  turns.give(first);
  assert.ok(ends(turns.take(late, LEAF)));
});

test('a turn that is never given up is SW_CONTENTION', () => {
  const turns = newTurns();
  const [abandoned, waiting] = [newTurn(), newTurn()];
  assert.ok(ends(turns.take(abandoned, LEAF)));
  const operation = turns.take(waiting, LEAF);
  assert.throws(
    () => {
      while (!ends(operation));
    },
    { code: 'SW_CONTENTION' },
  );
});
