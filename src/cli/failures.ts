import type { StepwellError } from '../errors.ts';

/** Exit codes. Scripts may rely on them. */
export const EXIT = {
  ok: 0,
  /** The command worked and the answer is no: no such key, or the check found problems. */
  negative: 1,
  usage: 2,
  /** The pool, a file or the network refused. */
  failed: 3,
  /** A defect of Stepwell itself (EX_SOFTWARE of sysexits.h). */
  internal: 70,
  /** Ended by Ctrl-C, as shells report it: 128 + SIGINT. */
  interrupted: 130,
} as const;

/** The command line itself is wrong; nothing has been touched. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
  /** A command line that works. Default: the first example of the command. */
  example: string | undefined;

  constructor(message: string, example?: string) {
    super(message);
    this.example = example;
  }
}

/** An input file contains something that cannot be stored. */
export class InputError extends Error {
  override readonly name = 'InputError';
}

/** The reader of the output has gone (`stepwell dump … | head`), which is not a failure. */
export class OutputClosed extends Error {
  override readonly name = 'OutputClosed';
}

export class Interrupted extends Error {
  override readonly name = 'Interrupted';
}

export interface Failure {
  exitCode: number;
  /** Empty if there is nothing to report. */
  message: string;
}

/** The message and the exit code for anything that a command may throw. */
export function describeFailure(error: unknown): Failure {
  if (error instanceof OutputClosed) return { exitCode: EXIT.ok, message: '' };
  if (error instanceof Interrupted) return { exitCode: EXIT.interrupted, message: error.message };
  if (error instanceof UsageError) return { exitCode: EXIT.usage, message: error.message };
  if (error instanceof InputError) return { exitCode: EXIT.failed, message: error.message };
  if (isStepwellError(error)) {
    const exitCode = USAGE_CODES.includes(error.code) ? EXIT.usage : EXIT.failed;
    return { exitCode, message: `${error.message} (${error.code})` };
  }
  if (isSystemError(error)) {
    return { exitCode: EXIT.failed, message: systemMessage(error) };
  }
  const message = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  return { exitCode: EXIT.internal, message: `internal error: ${message}` };
}

/** Errors in the command line. */
const USAGE_CODES: readonly string[] = [
  'SW_INVALID_URL',
  'SW_INVALID_ARGUMENT',
  'SW_INVALID_KEY',
  'SW_INVALID_VALUE',
];

/** Checks the code, because an error from a worker thread has lost its class. */
function isStepwellError(error: unknown): error is StepwellError {
  return error instanceof Error && /^SW_/.test(String((error as Partial<StepwellError>).code));
}

/** Node marks errors of the operating system with an errno and an `E…` code. */
function isSystemError(error: unknown): error is NodeJS.ErrnoException & { code: string } {
  if (!(error instanceof Error)) return false;
  const { code, errno } = error as NodeJS.ErrnoException;
  return typeof code === 'string' && (typeof errno === 'number' || code.startsWith('Z_'));
}

/** Moves the code, with which Node begins the message, to the end, as in Stepwell's errors. */
function systemMessage(error: NodeJS.ErrnoException & { code: string }): string {
  const text = error.message.replace(`${error.code}: `, '').replaceAll(/\s+/g, ' ');
  return text.includes(error.code) ? text : `${text} (${error.code})`;
}
