import '../../scripts/fresh-build.mjs';
import { rmSync } from 'node:fs';
import { resolve } from 'node:path';
import { test } from 'node:test';
import { Folder, pack } from '../../scripts/where/folder.ts';
import { BUN, DENO } from '../../scripts/where/runtimes.ts';
import { temporaryDirectory } from '../store/tests/support/pools.ts';

/** The packed package in other runtimes, which npm brings: rows of docs/where-it-runs.md. */
const ROOT = resolve(import.meta.dirname, '../..');

for (const place of [BUN, DENO]) {
  test(`${place.name} beside Node on one pool`, (scope) => {
    const folder = new Folder(pack(ROOT, temporaryDirectory(scope)));
    scope.after(() => rmSync(folder.path, { recursive: true, force: true }));
    place.run(folder);
  });
}
