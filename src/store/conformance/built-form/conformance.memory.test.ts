// On what the package ships, where operations are plain functions: see scripts/built-form.mjs.
import '../../../../scripts/built-form.mjs';

const { conformanceOnMemory } = await import('../cases/on-memory.ts');
// The promised calls of a store in memory run the same plain functions.
conformanceOnMemory({ twins: ['sync'] });
