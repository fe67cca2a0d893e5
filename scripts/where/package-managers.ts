import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { APP, type Folder, type Place } from './folder.ts';

const NPM: Place = {
  name: 'npm',
  shows: '`npm install` without any install script, then ES modules and CommonJS',
  run(folder) {
    folder.install();
    folder.write({ 'app.mjs': APP });
    folder.keeps(folder.node('app.mjs'));
    const lock = folder.read('package-lock.json');
    if (lock.includes('hasInstallScript')) throw new Error('a package has an install script');
    return folder.run('npm', '--version').trim();
  },
};

const PNPM: Place = {
  name: 'pnpm',
  shows: '`pnpm install --frozen-lockfile` with default settings',
  run(folder) {
    const tools = folder.tool('pnpm');
    const pnpm = (...words: string[]) => folder.run(join(tools, '.bin/pnpm'), ...words);
    manifest(folder, {});
    pnpm('install', '--no-frozen-lockfile');
    folder.remove('node_modules');
    pnpm('install', '--frozen-lockfile');
    folder.keeps(folder.node('app.mjs'));
    return folder.version('pnpm', tools);
  },
};

const YARN: Place = {
  name: 'Yarn, Plug’n’Play',
  shows: '`yarn install --immutable` without `node_modules`',
  run(folder) {
    const tools = folder.tool('@yarnpkg/cli-dist');
    const program = join(tools, '@yarnpkg/cli-dist/bin/yarn.js');
    const registry = execFileSync('npm', ['config', 'get', 'registry'], {
      encoding: 'utf8',
    }).trim();
    Object.assign(folder.env, {
      YARN_NPM_REGISTRY_SERVER: registry.replace(/\/$/, ''),
      YARN_UNSAFE_HTTP_WHITELIST: new URL(registry).hostname,
      YARN_ENABLE_TELEMETRY: '0',
    });
    manifest(folder, {});
    folder.write({ 'yarn.lock': '' });
    const yarn = (...words: string[]) => folder.node(program, ...words);
    yarn('install', '--no-immutable');
    yarn('install', '--immutable');
    folder.keeps(yarn('node', 'app.mjs'));
    return folder.version('@yarnpkg/cli-dist', tools);
  },
};

function manifest(folder: Folder, more: object): void {
  const dependencies = { stepwell: `file:${folder.tarball}` };
  folder.write({
    'package.json': { name: 'app', version: '1.0.0', private: true, dependencies, ...more },
    'app.mjs': APP,
  });
}

export const PACKAGE_MANAGERS: readonly Place[] = [NPM, PNPM, YARN];
