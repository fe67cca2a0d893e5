import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { test } from 'node:test';

const LAB = resolve(import.meta.dirname, '..');

interface Manifest {
  dependencies: Record<string, string>;
  peerDependencies: Record<string, string>;
}

function programs(): string[] {
  return readdirSync(LAB, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.ts') && !/^dist|tests\//.test(path))
    .map((path) => join(LAB, path));
}

/** Packages that the workbench loads at once or later, `src/` as far as it is loaded at once. */
function packagesOf(roots: readonly string[]): Set<string> {
  const packages = new Set<string>();
  const seen = new Set<string>();
  const follow = (path: string) => {
    if (seen.has(path)) return;
    seen.add(path);
    const text = readFileSync(path, 'utf8').replaceAll(/^(import|export) type .*$/gm, '');
    const atOnce = /^(?:import|export|\}).*from ["']([@.\w/-]+)["']/gm;
    const later = /import\(["']([@.\w/-]+)["']\)/g;
    const names = [...text.matchAll(atOnce), ...(roots.includes(path) ? text.matchAll(later) : [])];
    for (const [, name] of names) {
      if (name.startsWith('.')) follow(resolve(dirname(path), name));
      else if (!name.startsWith('node:')) packages.add(name);
    }
  };
  roots.forEach(follow);
  return packages;
}

test('the package of the workbench names every package that its programs load', () => {
  const text = readFileSync(join(LAB, 'package.json'), 'utf8');
  const { dependencies, peerDependencies } = JSON.parse(text) as Manifest;
  const packages = packagesOf(programs());
  assert.ok(packages.has('cac') && packages.has('lmdb'), [...packages].join());
  const unnamed = [...packages].filter(
    (name) => !(name in { ...dependencies, ...peerDependencies }),
  );
  assert.deepEqual(unnamed, []);
});
