import type { IndexName } from '../../api.ts';
import { conformanceOn } from './cases/local.ts';

/**
 * One index without order and one with have promised calls, and one has values of 64 MiB, of which
 * an index sees no more than an address: conformance.memory.campaign.test.ts has the others.
 */
const PROMISED: readonly IndexName[] = ['race', 'chime'];

conformanceOn('memory', (index) => ({
  largeValues: index === 'race',
  twins: PROMISED.includes(index) ? ['sync', 'async'] : ['sync'],
}));
