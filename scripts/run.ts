import { spawn, spawnSync } from 'node:child_process';
import { existsSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { constants } from 'node:os';
import { dirname, join, relative, resolve } from 'node:path';

/**
 * Builds the workbench and runs a program of it: `tsx scripts/run.ts PROGRAM WORD…`. With
 * `--with FILE` among the words, the index of that file is built in (scripts/build.ts), in a folder
 * of its own. Nothing is built again while no source has changed.
 */
const ROOT = resolve(import.meta.dirname, '..');
const OUT = 'lab/dist';
const SOURCES = ['src', 'lab', 'scripts', 'tsconfig.json', 'tsconfig.lab.json'];

const [program, ...words] = process.argv.slice(2);
process.chdir(ROOT);
const file = takeOption(words, '--with');
const own = file === undefined ? undefined : ownFile(file);
const out =
  own === undefined ? OUT : join(OUT, 'with', own.replace(/\.ts$/, '').replaceAll('/', '-'));
if (build(own, out)) await run(join(out, program.replace(/ts$/, 'js')), words);

/** Takes an option and its value out of the words. */
function takeOption(words: string[], name: string): string | undefined {
  const at = words.findIndex((word) => word === name || word.startsWith(`${name}=`));
  if (at < 0) return undefined;
  const [word, next] = words.splice(at, words[at] === name ? 2 : 1);
  return word === name ? next : word.slice(name.length + 1);
}

function ownFile(path: string): string {
  const own = relative(ROOT, resolve(path));
  if (existsSync(own) && own.endsWith('.ts') && !own.startsWith('..')) return own;
  console.error(`--with ${path}: it names a TypeScript file of this clone`);
  process.exit(2);
}

function build(own: string | undefined, out: string): boolean {
  const stamp = join(out, 'built');
  const sources = own === undefined ? SOURCES : [...SOURCES, dirname(own)];
  const isFresh = existsSync(stamp) && Math.max(...sources.map(changed)) < changed(stamp);
  if (isFresh) return true;
  const tsx = ['--import', import.meta.resolve('tsx')];
  const compile = [
    'scripts/build.ts',
    'tsconfig.lab.json',
    ...(own === undefined ? [] : [own, out]),
  ];
  for (const step of [compile, ['scripts/build-page.ts', join(out, 'src/web/page')]]) {
    const { status } = spawnSync(process.execPath, [...tsx, ...step], { stdio: 'inherit' });
    process.exitCode = status ?? 1;
    if (status !== 0) return false;
  }
  writeFileSync(stamp, '');
  return true;
}

/** When a file, or any source below a folder, was changed, made or removed. */
function changed(path: string): number {
  if (path === OUT) return 0;
  const stats = statSync(path);
  if (!stats.isDirectory()) return stats.mtimeMs;
  const below = readdirSync(path, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() || entry.name.endsWith('.ts'))
    .map(({ name }) => changed(join(path, name)));
  return Math.max(stats.mtimeMs, ...below);
}

/** Ends as the program does. */
async function run(path: string, words: readonly string[]): Promise<void> {
  const child = spawn(process.execPath, [path, ...words], { stdio: 'inherit' });
  // Ctrl-C reaches the program without help, and a second one would cut its end short.
  process.on('SIGINT', () => {}).on('SIGTERM', () => child.kill());
  const [code, signal] = await new Promise<[number | null, NodeJS.Signals | null]>((resolve) => {
    child.once('close', (...how) => resolve(how));
  });
  process.exitCode = code ?? 128 + constants.signals[signal ?? 'SIGTERM'];
}
