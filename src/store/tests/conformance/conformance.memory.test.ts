import { conformanceOn } from './cases/local.ts';

conformanceOn('memory', () => ({ largeValues: true }));
