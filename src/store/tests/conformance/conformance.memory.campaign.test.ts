import { conformanceOn } from './cases/local.ts';

/** conformance.memory.test.ts has all calls of RACE. */
conformanceOn('memory', (index) =>
  index === 'race' ? undefined : { largeValues: true, twins: ['async'] },
);
