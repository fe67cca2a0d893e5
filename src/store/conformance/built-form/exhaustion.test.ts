// On what the package ships, where operations are plain functions: see scripts/built-form.mjs.
import '../../../../scripts/built-form.mjs';

await import('../../tests/exhaustion.test.ts');
