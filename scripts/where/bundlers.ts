import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { APP, type Folder, type Place } from './folder.ts';

function esbuild(format: 'cjs' | 'esm'): Place {
  return {
    name: `esbuild, \`--format=${format}\``,
    shows: 'one file, beside the `node_modules` that the application has anyway',
    run(folder) {
      folder.install('esbuild');
      folder.write({ 'app.mjs': APP });
      const outfile = format === 'cjs' ? 'built/app.cjs' : 'built/app.mjs';
      const words = ['--bundle', '--platform=node', `--format=${format}`];
      folder.bin('esbuild', 'app.mjs', ...words, `--outfile=${outfile}`);
      folder.keeps(folder.node(outfile));
      return folder.version('esbuild');
    },
  };
}

const ROLLUP: Place = {
  name: 'Rollup',
  shows: 'with its plugins for packages (`node-resolve`, `commonjs`), and without',
  run(folder) {
    folder.install('rollup', '@rollup/plugin-node-resolve', '@rollup/plugin-commonjs');
    folder.write({ 'app.mjs': APP });
    folder.bin('rollup', 'app.mjs', '--file', 'built/apart.mjs', '--silent');
    folder.keeps(folder.node('built/apart.mjs'));
    const plugins = ['-p', 'node-resolve={preferBuiltins:true}', '-p', 'commonjs'];
    folder.bin('rollup', 'app.mjs', ...plugins, '--file', 'built/app.mjs', '--silent');
    folder.keeps(folder.node('built/app.mjs'));
    return folder.version('rollup');
  },
};

const VITE: Place = {
  name: 'Vite',
  shows: '`vite build --ssr`, with packages apart and with `noExternal`',
  run(folder) {
    folder.install('vite');
    folder.write({ 'app.mjs': APP, 'package.json': { ...manifest(folder), type: 'module' } });
    folder.bin('vite', 'build', '--ssr', 'app.mjs');
    folder.keeps(folder.node('dist/app.js'));
    folder.write({ 'vite.config.mjs': 'export default { ssr: { noExternal: true } };' });
    folder.bin('vite', 'build', '--ssr', 'app.mjs');
    folder.keeps(folder.node('dist/app.js'));
    return folder.version('vite');
  },
};

const WEBPACK: Place = {
  name: 'webpack',
  shows: '`--target node`, all else by default',
  run(folder) {
    folder.install('webpack', 'webpack-cli');
    folder.write({ 'app.mjs': APP });
    folder.bin('webpack', '--target', 'node', '--entry', './app.mjs', '--mode', 'production');
    folder.keeps(folder.node('dist/main.js'));
    return folder.version('webpack');
  },
};

const NFT: Place = {
  name: '@vercel/nft',
  shows: 'the traced files alone, in another folder',
  run(folder) {
    folder.install('@vercel/nft');
    folder.write({
      'app.mjs': APP,
      'trace.mjs': `import { nodeFileTrace } from '@vercel/nft';
const { fileList } = await nodeFileTrace(['app.mjs']);
console.log([...fileList].join('\\n'));`,
    });
    const files = folder.node('trace.mjs').trim().split('\n');
    elsewhere((target) => {
      for (const file of files) {
        mkdirSync(dirname(join(target, file)), { recursive: true });
        folder.copyTo(file, join(target, file));
      }
      folder.keeps(folder.node(join(target, 'app.mjs')));
    });
    return folder.version('@vercel/nft');
  },
};

const PAGE = `import { destroySync, openSync } from 'stepwell';
export const dynamic = 'force-dynamic';
export default function Page() {
  const store = openSync(process.env.POOL, { size: 2 ** 22 });
  store.set('k', 'kept');
  const text = store.get('k');
  store.close();
  destroySync(process.env.POOL);
  return <p>{text}</p>;
}
`;
const LAYOUT = 'export default ({ children }) => <html><body>{children}</body></html>;';
/** Starts the server, prints its page and ends it. */
const ASK = `
const { spawn } = require('node:child_process');
const child = spawn(process.execPath, [process.argv[2]], { stdio: ['ignore', 1, 1] });
process.on('exit', () => child.kill());
(async () => {
  for (let attempt = 0; attempt < 100; attempt++) {
    const page = await fetch('http://127.0.0.1:' + process.env.PORT).catch(() => undefined);
    if (page !== undefined) {
      const text = await page.text();
      console.log(/<p>(.*?)<[/]p>/.exec(text)?.[1] ?? text.slice(0, 500));
      break;
    }
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  process.exit();
})();
`;

function next(bundler: 'turbopack' | 'webpack'): Place {
  return {
    name: `Next.js \`output: 'standalone'\`, ${bundler}`,
    shows: 'a page of the app router; the standalone folder alone, elsewhere',
    run(folder) {
      folder.install('next', 'react', 'react-dom');
      folder.write({
        'app/page.jsx': PAGE,
        'app/layout.jsx': LAYOUT,
        'next.config.mjs': `export default { output: 'standalone', outputFileTracingRoot: import.meta.dirname };`,
        'ask.cjs': ASK,
      });
      Object.assign(folder.env, { NEXT_TELEMETRY_DISABLED: '1', HOSTNAME: '127.0.0.1' });
      folder.env.PORT = String(20_000 + (process.pid % 20_000));
      folder.bin('next', 'build', `--${bundler}`);
      elsewhere((target) => {
        folder.copyTo('.next/standalone', target);
        folder.keeps(folder.node('ask.cjs', join(target, 'server.js')));
      });
      return folder.version('next');
    },
  };
}

/** Moves nothing that was installed along: no folder above has it. */
function elsewhere(act: (target: string) => void): void {
  const target = mkdtempSync(join(tmpdir(), 'stepwell-deployed-'));
  try {
    act(target);
  } finally {
    rmSync(target, { recursive: true, force: true });
  }
}

function manifest(folder: Folder): object {
  return JSON.parse(folder.read('package.json'));
}

export const BUNDLERS: readonly Place[] = [
  esbuild('cjs'),
  esbuild('esm'),
  ROLLUP,
  VITE,
  WEBPACK,
  NFT,
  next('turbopack'),
  next('webpack'),
];
