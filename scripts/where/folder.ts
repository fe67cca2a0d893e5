import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

const INSTALL = ['install', '--silent', '--no-audit', '--no-fund', '--prefer-offline'];

/** A place that hangs fails. The slowest, a build of Next.js, takes a few minutes. */
const HANGING_MS = 10 * 60 * 1000;

/** Packs the project, as npm would publish it, into a folder; returns the tarball. */
export function pack(project: string, folder: string): string {
  const words = ['pack', '--json', '--ignore-scripts', '--pack-destination', folder];
  const text = execFileSync('npm', words, { cwd: project, encoding: 'utf8', stdio: 'pipe' });
  return join(folder, JSON.parse(text)[0].filename);
}

/** An application in an empty folder, and the packed tarball that it installs. */
export class Folder {
  readonly path: string;
  readonly tarball: string;
  /** Environment variables that its programs get besides those of this process. */
  readonly env: Record<string, string> = {};

  constructor(tarball: string) {
    this.tarball = tarball;
    this.path = mkdtempSync(join(tmpdir(), 'stepwell-where-'));
    // A name that no pool of another run has.
    this.env.POOL = `shm:where-${process.pid}`;
  }

  write(files: Readonly<Record<string, string | object>>): void {
    for (const [name, content] of Object.entries(files)) {
      const file = join(this.path, name);
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, typeof content === 'string' ? content : JSON.stringify(content, null, 2));
    }
  }

  read(name: string): string {
    return readFileSync(join(this.path, name), 'utf8');
  }

  remove(...names: string[]): void {
    for (const name of names) rmSync(join(this.path, name), { recursive: true, force: true });
  }

  /** Moves what was built away from what was installed. */
  copyTo(name: string, folder: string): void {
    cpSync(join(this.path, name), folder, { recursive: true, verbatimSymlinks: true });
  }

  /** Runs a program; returns what it prints, and raises an error with it when it fails. */
  run(program: string, ...words: string[]): string {
    const env = { ...process.env, ...this.env };
    // So that no setting of the command that started this one is taken for one of the user's.
    for (const name of Object.keys(env))
      if (/^npm_(?!config_registry)/.test(name)) delete env[name];
    try {
      return execFileSync(program, words, {
        cwd: this.path,
        env,
        encoding: 'utf8',
        stdio: 'pipe',
        timeout: HANGING_MS,
        // abstract-level's suite prints a line for each of thousands of assertions.
        maxBuffer: 2 ** 26,
      });
    } catch (error) {
      const { stdout, stderr } = error as { stdout: string; stderr: string };
      throw new Error(`${program} ${words.join(' ')} failed:\n${stdout}${stderr}`);
    }
  }

  node(...words: string[]): string {
    return this.run(process.execPath, ...words);
  }

  /** Runs a program that a package in this folder has. */
  bin(name: string, ...words: string[]): string {
    return this.run(join(this.path, 'node_modules/.bin', name), ...words);
  }

  /** Installs the tarball with npm, and packages beside it. */
  install(...packages: string[]): void {
    this.run('npm', ...INSTALL, this.tarball, ...packages);
  }

  /** Installs packages in a folder of their own; returns that folder. */
  tool(...packages: string[]): string {
    const folder = mkdtempSync(join(this.path, 'tool-'));
    this.run('npm', ...INSTALL, '--prefix', folder, ...packages);
    return join(folder, 'node_modules');
  }

  /** The version of a package that was installed. */
  version(name: string, modules = join(this.path, 'node_modules')): string {
    return JSON.parse(readFileSync(join(modules, name, 'package.json'), 'utf8')).version;
  }

  /** Raises an error unless the program prints `kept`. */
  keeps(printed: string): void {
    if (!/^kept$/m.test(printed)) throw new Error(`the application printed: ${printed}`);
  }
}

/** A place where applications run: a row of the table in docs/where-it-runs.md. */
export interface Place {
  readonly name: string;
  /** What the run shows. */
  readonly shows: string;
  /** Returns the version that it ran. */
  run(folder: Folder): string;
}

/** Prints `kept` after a record went through a pool that processes share. */
export const USES = `const store = openSync(process.env.POOL, { size: 2 ** 22 });
store.set('k', 'kept');
console.log(store.get('k'));
store.close();
destroySync(process.env.POOL);
`;
export const APP = `import { destroySync, openSync } from 'stepwell';\n${USES}`;
export const COMMON_APP = `const { destroySync, openSync } = require('stepwell');\n${USES}`;
