import { REPLACED } from '../../../src/indexes/contract.ts';
import { VerificationFailure } from './failure.ts';
import { type CallRecord, encodeState, type KeyState, timeline } from './history.ts';

/** A key that a step of a scan returned. */
export interface Sight {
  key: number;
  found: KeyState;
}

/**
 * Checks that each step of a scan handed out records of one moment, for an index that promises so:
 * the histories of single keys cannot tell. A record was absent before the call that wrote it was
 * made, and again after a call that replaced it had returned. So no record of a step may have gone
 * before another one came. Calls that do not say what they replaced, or never returned, tell
 * nothing.
 */
export function auditSnapshots(
  steps: readonly (readonly Sight[])[],
  records: readonly CallRecord[],
  keys: readonly string[],
): void {
  for (const step of steps) {
    const [gone, came] = [
      step.map((one) => lastOf(one, records)),
      step.map((one) => firstOf(one, records)),
    ];
    gone.forEach((end, i) => {
      const other = came.findIndex((begin) => begin > end);
      if (other < 0) return;
      const [one, two] = [step[i], step[other]].map(({ key, found }) => {
        return `${keys[key]} = ${encodeState(found)}`;
      });
      throw new VerificationFailure(
        'linearizability',
        `a step of a scan has ${one}, which had gone at ${end}, and ${two}, which came after ` +
          `${came[other]}:\n${timeline(records, keys)}`,
      );
    });
  }
}

/** When at the latest the record had been replaced or removed. */
function lastOf({ key, found }: Sight, records: readonly CallRecord[]): number {
  const gone = records.filter(({ call, result }) => {
    const isChange = call.key === key && call.kind !== 'search' && result?.outcome === REPLACED;
    return isChange && isSame(result.found, found);
  });
  return Math.min(...gone.map(({ responded }) => responded));
}

/** Before when it was not there; 0 when nobody knows. */
function firstOf({ key, found }: Sight, records: readonly CallRecord[]): number {
  const writer = records.find(({ call, result }) => {
    if (call.key !== key || (call.kind !== 'write' && call.kind !== 'modify')) return false;
    return call.value === found?.value || (result !== undefined && isWritten(result, found));
  });
  return writer?.invoked ?? 0;
}

function isWritten({ outcome, version }: NonNullable<CallRecord['result']>, found: KeyState) {
  return outcome === REPLACED && version === found?.version;
}

function isSame(a: KeyState, b: KeyState): boolean {
  return a !== undefined && a.value === b?.value && a.version === b.version;
}
