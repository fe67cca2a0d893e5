import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { test } from 'node:test';
import { errorPage, errorsIn, PAGE } from '../../scripts/error-page.ts';

const source = readFileSync(resolve(import.meta.dirname, '../errors.ts'), 'utf8');

test('every error code has a cause and a remedy', () => {
  const errors = errorsIn(source);
  const codes = new Set(source.match(/'SW_\w+'(?=[\s;])/g));
  assert.ok(codes.size > 40);
  assert.equal(errors.length, codes.size);
  for (const { code, cause, remedy } of errors) {
    assert.ok(cause !== '' && remedy !== '', `${code} lacks a cause or a remedy`);
  }
});

test('docs/errors.md is current: run tsx scripts/error-page.ts', () => {
  assert.equal(readFileSync(PAGE, 'utf8'), errorPage());
});
