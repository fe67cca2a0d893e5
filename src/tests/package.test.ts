import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { dirname, join, normalize, resolve } from 'node:path';
import { test } from 'node:test';

const ROOT = resolve(import.meta.dirname, '../..');

/** What npm would publish, as far as it is there before a build. */
function packed(): string[] {
  const text = execFileSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], {
    cwd: ROOT,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const [{ files }] = JSON.parse(text) as [{ files: { path: string }[] }];
  return files.map(({ path }) => path);
}

/** As GitHub and npm make an anchor of a heading. */
function anchorsOf(text: string): string[] {
  return [...text.matchAll(/^#+ (.*)$/gm)].map(([, heading]) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  );
}

test('every link of a page in the package leads to a page, or a heading, in the package', () => {
  const files = packed();
  const pages = files.filter((path) => path.endsWith('.md'));
  assert.ok(pages.length > 5 && pages.includes('README.md'));
  const read = (path: string) => readFileSync(join(ROOT, path), 'utf8');
  const broken: string[] = [];
  for (const page of pages) {
    for (const [, link] of read(page).matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^[a-z]+:/.test(link)) continue;
      const [path, anchor] = link.split('#');
      const target = path === '' ? page : normalize(join(dirname(page), path));
      const isThere = files.includes(target);
      const isHeading = !anchor || (isThere && anchorsOf(read(target)).includes(anchor));
      if (!isThere || !isHeading) broken.push(`${page}: ${link}`);
    }
  }
  assert.deepEqual(broken, []);
});
