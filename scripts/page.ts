import { cpSync, mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { build } from 'esbuild';

/**
 * Bundles the page of `stepwell web` (src/web/page) into a folder: the browser's code with uPlot in
 * it and its license in front, the style sheet and the document.
 */
export async function buildPage(root: string, folder: string): Promise<void> {
  const source = join(root, 'src/web/page');
  const uPlot = dirname(dirname(createRequire(join(root, 'package.json')).resolve('uplot')));
  const license = readFileSync(join(uPlot, 'LICENSE'), 'utf8');
  mkdirSync(folder, { recursive: true });
  await build({
    absWorkingDir: root,
    entryPoints: [join(source, 'main.ts'), join(source, 'page.css')],
    outdir: folder,
    bundle: true,
    minify: true,
    format: 'esm',
    target: 'es2022',
    platform: 'browser',
    banner: { js: `/*! uPlot\n${license}*/` },
    logLevel: 'error',
  });
  cpSync(join(source, 'index.html'), join(folder, 'index.html'));
}
