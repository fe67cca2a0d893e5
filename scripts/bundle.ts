import { readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { type Plugin, rollup } from '@rollup/wasm-node';
import { PROGRAMS } from './programs.ts';

/**
 * Bundles what the package ships: `tsx scripts/bundle.ts`, behind `scripts/build.ts`. Programs load
 * one file instead of some hundred modules, which takes a quarter of the time. And V8 looks up and
 * checks at each use what one module imports from another, but knows what stands in the same one: a
 * call of a store is 5 to 10 % shorter.
 *
 * The library's entries, and programs that are threads of it, share a file, so that each class is
 * there once. The command and what runs memory nodes are one file each: of what they used from the
 * library's file V8 would know nothing any more.
 */
const ROOT = resolve(import.meta.dirname, '..');
const DIST = join(ROOT, 'dist');
const MODULES = join(DIST, 'modules');

/** `import.meta.url`, but for the constant that stands for the file that a module is part of. */
const PLACE = /(?<!HERE = )import\.meta\.url/;

/**
 * Reads modules with their source maps. A module within another file still finds what stands beside
 * its own place, programs and pages; in words that bundlers of applications do not follow.
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
  entries: [...exported(), 'cli/bench/worker', 'store/remote/blocking-worker'],
  file: 'stepwell',
  apart: /^(index\.js|adapters\/|helpers\/|cli\/|store\/remote\/blocking-worker\.js)/,
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
