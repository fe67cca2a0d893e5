import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { transformSync } from 'esbuild';
import { readmeExamples } from '../store/tests/support/readme-examples.ts';
import { startNodes } from '../store/tests/support/remote.ts';

/** Where the package's names lead while developing. */
const PLACES: Readonly<Record<string, string>> = {
  stepwell: new URL('../index.ts', import.meta.url).href,
  'stepwell/bentocache': new URL('../adapters/bentocache/index.ts', import.meta.url).href,
  'stepwell/express-rate-limit': new URL('../adapters/express-rate-limit/index.ts', import.meta.url)
    .href,
  'stepwell/express-session': new URL('../adapters/express-session/index.ts', import.meta.url).href,
  'stepwell/fastify-session': new URL('../adapters/fastify-session/index.ts', import.meta.url).href,
  'stepwell/helpers': new URL('../helpers/index.ts', import.meta.url).href,
  'stepwell/keyv': new URL('../adapters/keyv/index.ts', import.meta.url).href,
  'stepwell/level': new URL('../adapters/level/index.ts', import.meta.url).href,
  'stepwell/next': new URL('../adapters/next/index.ts', import.meta.url).href,
  'stepwell/rate-limiter-flexible': new URL(
    '../adapters/rate-limiter-flexible/index.ts',
    import.meta.url,
  ).href,
  'stepwell/unstorage': new URL('../adapters/unstorage/index.ts', import.meta.url).href,
};
/** Examples stand where the packages are found that they use. */
const ROOT = resolve(import.meta.dirname, '../..');

/** The pool of an example, or the node that a reader was to start. */
const NODE = 'tcp://127.0.0.1:7471/';
const examples = readmeExamples().filter(
  ({ page, code }) =>
    page === 'docs/testing.md' || code.includes("'shm:my-app'") || code.includes(NODE),
);
for (const [i, { page, code }] of examples.entries()) {
  test(`example ${i + 1} of ${page} runs`, async (t) => {
    const folder = mkdtempSync(join(ROOT, 'example-'));
    t.after(() => rmSync(folder, { recursive: true }));
    t.mock.method(console, 'log', () => {});
    const file = join(folder, 'example.mjs');
    const node = code.includes(NODE) ? (await startNodes(t)).url : '';
    const here = code
      .replaceAll("'shm:my-app'", "'memory:'")
      .replaceAll(NODE, `${node}/`)
      .replaceAll(/from '(stepwell[^']*)'/g, (_, name: string) => `from '${PLACES[name]}'`);
    writeFileSync(file, transformSync(here, { loader: 'ts' }).code);
    await import(pathToFileURL(file).href);
  });
}
