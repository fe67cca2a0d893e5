export { type ErrorCode, StepwellError } from './errors.ts';
export type * from './store/api.ts';
export { checkPool, createPool, destroyPool, inspectPool, open, openSync } from './store/open.ts';
