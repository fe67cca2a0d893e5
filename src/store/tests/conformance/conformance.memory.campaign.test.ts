import type { IndexName } from '../../api.ts';
import { conformanceOn } from './cases/local.ts';

/** conformance.memory.test.ts has all calls of these. */
const ELSEWHERE: readonly IndexName[] = ['race', 'chime'];

conformanceOn('memory', (index) =>
  ELSEWHERE.includes(index) ? undefined : { largeValues: true, twins: ['async'] },
);
