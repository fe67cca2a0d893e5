import { readFileSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

/**
 * Writes docs/errors.md from `src/errors.ts`: `tsx scripts/error-page.ts`. There, the comment of a
 * code says its cause and, behind `Remedy:`, what to do.
 */
const ROOT = resolve(import.meta.dirname, '..');
export const PAGE: string = resolve(ROOT, 'docs/errors.md');

const HEAD = `# Errors

Stepwell raises a \`StepwellError\` on purpose. Test its \`code\`, which stays the same between versions. The message is one line for the person who reads it, and names the pool, store or option. \`cause\` has the error of the system or of a codec, if there was one.

A call that raises an error of a memory node or of a connection (\`SW_NODE_UNREACHABLE\`, \`SW_REVOKED\`, \`SW_NO_PRIMARY\`) may have stored its value. [Consistency](consistency.md) says what holds then.

| Code | Cause | What to do |
|---|---|---|
`;

interface ErrorText {
  code: string;
  cause: string;
  remedy: string;
}

/** The codes in their order; `remedy` is empty where the source has none. */
export function errorsIn(source: string): ErrorText[] {
  const pattern = /\| '(SW_\w+)';?((?:\s*\/\/ [^\n]*)*)/g;
  return [...source.matchAll(pattern)].map(([, code, comment]) => {
    const text = comment.replaceAll(/(^|\s+)\/\/ /g, ' ').trim();
    const [cause, remedy = ''] = text.split(' Remedy: ');
    return { code, cause, remedy };
  });
}

function sentence(text: string): string {
  const plain = text.replace(/\.$/, '').replaceAll('|', '\\|');
  return `${plain.charAt(0).toUpperCase()}${plain.slice(1)}.`;
}

/** The page as it is to be. */
export function errorPage(): string {
  const errors = errorsIn(readFileSync(resolve(ROOT, 'src/errors.ts'), 'utf8'));
  const rows = errors.map(
    ({ code, cause, remedy }) => `| \`${code}\` | ${sentence(cause)} | ${sentence(remedy)} |\n`,
  );
  return HEAD + rows.join('');
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) writeFileSync(PAGE, errorPage());
