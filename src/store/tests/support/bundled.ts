import assert from 'node:assert/strict';
import { mkdirSync, symlinkSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { buildSync } from 'esbuild';
import { type Scope, temporaryDirectory } from './pools.ts';

const SOURCE = resolve(import.meta.dirname, '../../..');
const KOFFI = resolve(SOURCE, '../node_modules/@koromix');

interface BundleOptions {
  format?: 'esm' | 'cjs';
  /** Whether koffi is installed beside the bundle. */
  koffi?: boolean;
  /** The module that `stepwell` resolves to. */
  from?: string;
}

/**
 * Bundles a program that imports `stepwell`, as an application would, into a folder of its own.
 * Returns the file. It starts without tsx, so it also runs where Node allows little.
 */
export function bundled(
  scope: Scope,
  program: string,
  { format = 'esm', koffi = true, from = join(SOURCE, 'index.ts') }: BundleOptions = {},
): string {
  const folder = temporaryDirectory(scope);
  const outfile = join(folder, format === 'esm' ? 'app.mjs' : 'app.cjs');
  const { warnings } = buildSync({
    stdin: { contents: program, resolveDir: SOURCE, loader: 'ts' },
    alias: { stepwell: from },
    bundle: true,
    platform: 'node',
    target: 'node20',
    format,
    outfile,
    logLevel: 'silent',
  });
  // The bundle says itself where it is, when it has no import.meta.
  const others = warnings.filter(({ id }) => id !== 'empty-import-meta');
  assert.deepEqual(others, []);
  if (koffi) {
    mkdirSync(join(folder, 'node_modules'));
    symlinkSync(KOFFI, join(folder, 'node_modules/@koromix'));
  }
  return outfile;
}
