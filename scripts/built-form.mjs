import { register } from 'node:module';
import './fresh-build.mjs';

/**
 * Lets tests run on what the package is made of: `node --import tsx --import
 * ./scripts/built-form.mjs`. Every module of src/ that a test imports is taken from dist/modules/
 * instead, where operations stand in their synchronous form.
 */
const source = new URL('../src/', import.meta.url).href;
const dist = new URL('../dist/modules/', import.meta.url).href;
const hook = `
  import { existsSync } from 'node:fs';
  const [source, dist] = ${JSON.stringify([source, dist])};
  export async function resolve(specifier, context, next) {
    const found = await next(specifier, context);
    if (!found.url.startsWith(source)) return found;
    const built = dist + found.url.slice(source.length).replace(/\\.ts(\\?.*)?$/, '.js');
    return existsSync(new URL(built)) ? { ...found, url: built, format: 'module' } : found;
  }`;
register(`data:text/javascript,${encodeURIComponent(hook)}`);
