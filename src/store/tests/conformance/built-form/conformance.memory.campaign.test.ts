// On what the package ships, where operations are plain functions: see scripts/test.ts.
import '../../../../../scripts/fresh-build.mjs';
import { conformanceOn } from '../cases/local.ts';

// The promised calls of a store in memory run the same plain functions.
conformanceOn('memory', () => ({ twins: ['sync'] }));
