// On what the package ships, where operations are plain functions: see scripts/built-form.mjs.
import '../../../../scripts/built-form.mjs';

const { conformanceOn } = await import('../cases/local.ts');
// The promised calls of a store in memory run the same plain functions.
conformanceOn('memory', () => ({ twins: ['sync'] }));
