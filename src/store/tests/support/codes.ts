import assert from 'node:assert/strict';
import { type ErrorCode, StepwellError } from '../../../errors.ts';

/** The stable code with which `action` fails, or what it returned or raised instead, as text. */
export function codeOf(action: () => unknown): string {
  try {
    return `returned ${describe(action())}`;
  } catch (error) {
    return describe(error);
  }
}

export function throwsCode(code: ErrorCode, action: () => unknown, what?: string): void {
  assert.equal(codeOf(action), code, what ?? action.toString());
}

export async function rejectsCode(
  code: ErrorCode,
  action: () => Promise<unknown>,
  what?: string,
): Promise<void> {
  const outcome = await action().then((value) => `returned ${describe(value)}`, describe);
  assert.equal(outcome, code, what ?? action.toString());
}

function describe(value: unknown): string {
  if (value instanceof StepwellError) {
    assert.ok(!value.message.includes('\n'), `a message is one line: ${value.message}`);
    return value.code;
  }
  return value instanceof Error ? `raw ${value.name}: ${value.message}` : typeof value;
}
