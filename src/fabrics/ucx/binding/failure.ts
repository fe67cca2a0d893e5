import { StepwellError } from '../../../errors.ts';
import { isFailure, OK, type UcxLibrary } from './library.ts';

/** Raises SW_UNSUPPORTED with the library's own words when a call has not succeeded. */
export function succeed(ucx: UcxLibrary, status: number, what: string): void {
  if (status === OK) return;
  const words = isFailure(status) ? ucx.statusText(status) : `status ${status}`;
  throw new StepwellError('SW_UNSUPPORTED', `UCX ${ucx.version} cannot ${what}: ${words}`);
}
