import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { transformSync } from 'esbuild';
import { readmeExamples } from '../store/tests/support/readme-examples.ts';

/** Where the package's names lead while developing. */
const PLACES: Readonly<Record<string, string>> = {
  stepwell: new URL('../index.ts', import.meta.url).href,
  'stepwell/helpers': new URL('../helpers/index.ts', import.meta.url).href,
  'stepwell/level': new URL('../adapters/level/index.ts', import.meta.url).href,
};

const examples = readmeExamples().filter(({ code }) => code.includes("'shm:my-app'"));
for (const [i, { page, code }] of examples.entries()) {
  test(`example ${i + 1} of ${page} runs`, async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'stepwell-example-'));
    t.after(() => rmSync(folder, { recursive: true }));
    t.mock.method(console, 'log', () => {});
    const file = join(folder, 'example.mjs');
    const here = code
      .replaceAll("'shm:my-app'", "'memory:'")
      .replaceAll(/from '(stepwell[^']*)'/g, (_, name: string) => `from '${PLACES[name]}'`);
    writeFileSync(file, transformSync(here, { loader: 'ts' }).code);
    await import(pathToFileURL(file).href);
  });
}
