/**
 * Runs the conformance suite on `memory:` stores, with the plain functions that the build derives.
 */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { INDEX_NAMES } from '../src/indexes/kinds.ts';
import { UsageError } from './support/options.ts';

const SUITE = new URL('../src/store/tests/conformance/conformance.memory.test.js', import.meta.url);

export async function main([index = '', ...words]: string[]): Promise<void> {
  if (!INDEX_NAMES.includes(index)) {
    const names = INDEX_NAMES.join(', ');
    throw new UsageError(`Usage: stepwell-lab conformance INDEX; there is ${names}`);
  }
  const only = ['--test', '--test-name-pattern', `^${index} on `, ...words];
  const { status } = spawnSync(process.execPath, [...only, fileURLToPath(SUITE)], {
    stdio: 'inherit',
  });
  process.exitCode = status ?? 1;
}
