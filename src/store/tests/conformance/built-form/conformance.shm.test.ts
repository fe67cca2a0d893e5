// On what the package ships, where operations are plain functions: see scripts/test.ts.
import '../../../../../scripts/fresh-build.mjs';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openSync } from '../../../open.ts';
import { conformanceOn } from '../cases/local.ts';

test('the tests of this folder run on the modules of the package', async () => {
  const module = new URL('../../../../../dist/modules/store/open.js', import.meta.url);
  assert.equal(openSync, (await import(module.href)).openSync);
});

conformanceOn('shm', (index) => ({ twins: ['sync'], bounded: index === 'race' }));
