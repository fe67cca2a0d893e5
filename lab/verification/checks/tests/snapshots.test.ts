import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  ALWAYS,
  type Condition,
  EXCHANGE,
  INSERTED,
  REPLACED,
} from '../../../../src/indexes/contract.ts';
import { CallRecord, type KeyState } from '../history.ts';
import { RunClock } from '../run-clock.ts';
import { auditSnapshots } from '../snapshots.ts';

const KEYS = ['a', 'b'];

/** A write of a key that was there from the one time to the other, and what it has replaced. */
function write(key: number, value: string, [invoked, responded]: number[], old?: KeyState) {
  const version = old ? old.version + 1 : Number(value);
  const condition: Condition = old ? EXCHANGE : ALWAYS;
  const call = { key, kind: 'write' as const, condition, expected: 0, value, version };
  const record = new CallRecord('c0', call, invoked, new RunClock());
  record.responded = responded;
  record.result = { outcome: old ? REPLACED : INSERTED, found: old, version };
  return record;
}

/** One after the other: the first key is replaced, then the second. */
const HISTORY = [
  write(0, '1000', [1, 2]),
  write(1, '2000', [3, 4]),
  write(0, '3000', [5, 6], { value: '1000', version: 1000 }),
  write(1, '4000', [7, 8], { value: '2000', version: 2000 }),
];
const FIRST = { value: '1000', version: 1000 };
const SECOND = { value: '2000', version: 2000 };
const THIRD = { value: '3000', version: 1001 };
const FOURTH = { value: '4000', version: 2001 };

function step(a: KeyState, b: KeyState): void {
  const seen = [
    { key: 0, found: a },
    { key: 1, found: b },
  ];
  auditSnapshots([seen], HISTORY, KEYS);
}

test('a step of a scan has what was there at one moment', () => {
  step(FIRST, SECOND);
  step(THIRD, SECOND);
  step(THIRD, FOURTH);
});

test('it does not have a record that had gone before another one came', () => {
  assert.throws(
    () => step(FIRST, FOURTH),
    /a step of a scan has a = 1000@1000, which had gone at 6/,
  );
});

test('writes at the same time may come in any order', () => {
  const [first, second, third, fourth] = HISTORY;
  const late = write(0, '3000', [5, 9], third.result?.found);
  const seen = [
    { key: 0, found: FIRST },
    { key: 1, found: FOURTH },
  ];
  auditSnapshots([seen], [first, second, late, fourth], KEYS);
});
