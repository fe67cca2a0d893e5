import type { IndexName } from '../../api.ts';
import { conformanceOn } from './cases/local.ts';

/** One index without order and one with: conformance.memory.campaign.test.ts has the others. */
const PROMISED: readonly IndexName[] = ['race', 'chime'];

conformanceOn('memory', (index) => ({
  largeValues: true,
  twins: PROMISED.includes(index) ? ['sync', 'async'] : ['sync'],
}));
