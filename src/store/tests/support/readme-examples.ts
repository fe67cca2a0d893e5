import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

const ROOT = resolve(import.meta.dirname, '../../../..');

/** An example of a page, which a reader would copy. */
export interface Example {
  page: string;
  code: string;
}

/** All examples that use the package as one that is installed. */
export function readmeExamples(): Example[] {
  return pages().flatMap((page) => {
    const text = readFileSync(join(ROOT, page), 'utf8');
    const blocks = [...text.matchAll(/^```(?:js|ts)\n(.*?)^```$/gms)].map(([, code]) => code);
    return blocks.filter((code) => /from 'stepwell/.test(code)).map((code) => ({ page, code }));
  });
}

function pages(): string[] {
  const below = ['docs', 'src', 'lab'].flatMap((tree) =>
    readdirSync(join(ROOT, tree), { recursive: true, encoding: 'utf8' }).map(
      (path) => `${tree}/${path}`,
    ),
  );
  return ['README.md', ...below.filter((path) => path.endsWith('.md'))];
}
