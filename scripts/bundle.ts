import { readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { type Plugin, rollup } from '@rollup/wasm-node';
import { PROGRAMS } from './programs.ts';

/**
 * Bundles what the package ships: `tsx scripts/bundle.ts`, after `scripts/build.ts`. A program then
 * loads one file instead of 640 modules, in a quarter of the time. And V8 checks an imported binding
 * at every use, but not a binding of the same module: calls of a store take 5 to 10 % less.
 *
 * The library's entries share `stepwell.js`, so that a program has each class once. The command and
 * the programs of memory nodes have copies of what they use of it: V8 treats a binding that a module
 * exports like an imported one.
 */
const ROOT = resolve(import.meta.dirname, '..');
const DIST = join(ROOT, 'dist');
const MODULES = join(DIST, 'modules');

/** `import.meta.url`, except in `HERE`, which stands for the file that a module is part of. */
const PLACE = /(?<!HERE = )import\.meta\.url/;

/**
 * Reads modules with their source maps. A bundled module still finds the programs and pages that
 * stand beside its place in `dist/`. It does not say `new URL('…', import.meta.url)`, which bundlers
 * of applications would follow.
 */
const placed = (folder: string): Plugin => ({
  name: 'placed',
  load(id) {
    const place = JSON.stringify(relative(folder, join(DIST, relative(MODULES, id))));
    const code = readFileSync(id, 'utf8');
    if (PLACE.test(code) && id.includes('/generators/')) throw new Error(`${id} has no place`);
    return {
      code: code.replaceAll(new RegExp(PLACE, 'g'), `import.meta.url.replace(/[^/]*$/, ${place})`),
      map: readFileSync(`${id}.map`, 'utf8'),
    };
  },
});

interface Part {
  /** Modules that others load, as paths below `dist/` without an ending. */
  entries: readonly string[];
  /** The file, beside the first entry, that has all modules but those whose paths match `apart`. */
  file?: string;
  apart?: RegExp;
}

/** What `exports` of package.json names. */
function exported(): string[] {
  const { exports } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
  const files = Object.values<{ default?: string }>(exports).map((entry) => entry.default ?? '');
  return files.flatMap((file) => /^\.\/dist\/(.*)\.js$/.exec(file)?.[1] ?? []);
}

const LIBRARY: Part = {
  entries: [...exported(), 'cli/bench/worker'],
  file: 'stepwell',
  apart: /^(index\.js|adapters\/|helpers\/|cli\/)/,
};

/** A command runs while its first module does: what it loads on the way has to be another file. */
const COMMAND: Part = { entries: ['cli/main'], file: 'command', apart: /^cli\/main\.js/ };

async function bundle({ entries, file, apart = /^/ }: Part): Promise<void> {
  const folder = dirname(entries[0]);
  const built = await rollup({
    input: Object.fromEntries(entries.map((name) => [name, join(MODULES, `${name}.js`)])),
    external: (id) => !/^[./]/.test(id),
    plugins: [placed(join(DIST, folder))],
    treeshake: false,
    onwarn(warning) {
      throw new Error(warning.message);
    },
  });
  await built.write({
    dir: DIST,
    sourcemap: true,
    chunkFileNames: join(folder, '[name].js'),
    manualChunks: (id) => (apart.test(relative(MODULES, id)) ? undefined : file),
  });
}

const programs = PROGRAMS.flatMap((path) => /^src\/(.*)\.ts$/.exec(path)?.[1] ?? []);
const shared = [...LIBRARY.entries, ...COMMAND.entries];
const alone = programs.filter((name) => !shared.includes(name));
for (const part of [LIBRARY, COMMAND, ...alone.map((name) => ({ entries: [name] }))]) {
  await bundle(part);
}
