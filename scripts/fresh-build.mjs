import { existsSync, readdirSync, statSync } from 'node:fs';
import { isMainThread } from 'node:worker_threads';

/** Raises an error where `dist/` is not built of these sources: tests of it would prove nothing. */
const at = (path) => new URL(`../${path}`, import.meta.url);
const changed = (folder) =>
  readdirSync(at(folder), { recursive: true })
    .filter((path) => path.endsWith('.ts') && !/(^|\/)tests\//.test(path))
    .map((path) => statSync(at(`${folder}/${path}`)).mtimeMs);

if (isMainThread) {
  const built = ['dist/index.js', 'dist/modules/index.js'].map(at);
  const newest = Math.max(...changed('src'), statSync(at('scripts/bundle.ts')).mtimeMs);
  const isFresh = (file) => existsSync(file) && statSync(file).mtimeMs >= newest;
  if (!built.every(isFresh)) throw new Error('dist/ is older than src/; run: npm run build');
}
