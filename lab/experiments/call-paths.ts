/**
 * Counts, with V8's coverage, the files and functions of the product that one call passes through,
 * which is what a newcomer has to follow.
 */
import { once } from 'node:events';
import { Session } from 'node:inspector/promises';
import { connect } from 'node:net';
import { serveRedis } from '../../src/gateway/server.ts';
import { open, openServed, openSync } from '../../src/store/open.ts';
import { Cleanup } from '../support/cleanup.ts';
import { parseOptions } from '../support/options.ts';
import { table } from '../support/text.ts';
import { firstMessage, startProcess } from '../tcp/processes.ts';

const SPEC = {
  names: { kind: 'flag', help: 'also name the functions' },
} as const;

const PRODUCT = new URL('../../src/', import.meta.url).href;
/** Calls that fill the caches, then calls to measure: the shortest path of these counts. */
const WARM = 200;
const TRIES = 60;
const NODE_BYTES = 2 ** 26;
const SET = '*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n';

interface Call {
  name: string;
  /** Files and functions before this was first measured, and the goal set then. */
  before: string;
  goal: string;
  begin(cleanup: Cleanup): Promise<() => unknown>;
}

const local = (index: 'race' | 'chime', insert: boolean) => async (cleanup: Cleanup) => {
  const store = openSync('memory:', { index });
  cleanup.add(() => store.close());
  store.set('key', 'value');
  let count = 0;
  return () => (insert ? store.set(`key ${count++}`, 'value') : store.get('key'));
};

const CALLS: readonly Call[] = [
  { name: 'get, RACE', before: '28/86', goal: '15/45', begin: local('race', false) },
  { name: 'get, CHIME', before: '35/115', goal: '20/60', begin: local('chime', false) },
  { name: 'insert, RACE', before: '34/131', goal: '18/75', begin: local('race', true) },
  { name: 'insert, CHIME', before: '46/178', goal: '25/95', begin: local('chime', true) },
  { name: 'Redis SET', before: '55/208', goal: '30/110', begin: redisSet },
  { name: 'get over TCP, client', before: '40/150', goal: '22/80', begin: getOverTcp },
];

async function redisSet(cleanup: Cleanup): Promise<() => unknown> {
  const store = await openServed('memory:', { create: true, values: 'bytes' });
  const server = await serveRedis({ store: store.operations, pool: store.pool, port: 0 });
  const socket = connect(server.address.port, '127.0.0.1');
  await once(socket, 'connect');
  cleanup.add(() => store.close());
  cleanup.add(() => server.close());
  cleanup.add(() => void socket.destroy());
  return async () => {
    socket.write(SET);
    await once(socket, 'data');
  };
}

async function getOverTcp(cleanup: Cleanup): Promise<() => unknown> {
  const node = startProcess(cleanup, 'node-process', [String(NODE_BYTES)]);
  const store = await open(`tcp://127.0.0.1:${await firstMessage<number>(node)}`);
  cleanup.add(() => store.close());
  await store.set('key', 'value');
  return () => store.get('key');
}

/** By file, the functions of the product that ran in the shortest of some calls. */
async function pathOf(call: () => unknown): Promise<Map<string, string[]>> {
  const session = new Session();
  session.connect();
  for (let i = 0; i < WARM; i++) await call();
  await session.post('Profiler.enable');
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
  let shortest: Map<string, string[]> | undefined;
  for (let i = 0; i < TRIES; i++) {
    await session.post('Profiler.takePreciseCoverage');
    await call();
    const { result } = await session.post('Profiler.takePreciseCoverage');
    const path = new Map<string, string[]>();
    for (const { url, functions } of result) {
      // A module's own code, which runs when it is loaded, has no name and starts at offset 0.
      const ran = functions.filter(
        ({ functionName, ranges: [range] }) =>
          range.count > 0 && (functionName !== '' || range.startOffset > 0),
      );
      if (!url.startsWith(PRODUCT) || ran.length === 0) continue;
      const names = ran.map(({ functionName }) => functionName || '(no name)');
      path.set(url.slice(PRODUCT.length), names);
    }
    if (shortest === undefined || functionsOf(path) < functionsOf(shortest)) shortest = path;
  }
  session.disconnect();
  if (!shortest?.size) throw new Error(`no call ran a function of a module in ${PRODUCT}`);
  return shortest;
}

function functionsOf(path: ReadonlyMap<string, readonly string[]>): number {
  return [...path.values()].reduce((sum, names) => sum + names.length, 0);
}

export async function main(argv: string[]): Promise<void> {
  const { names } = parseOptions('stepwell-lab call-paths', SPEC, argv);
  const rows: string[][] = [];
  for (const { name, before, goal, begin } of CALLS) {
    const cleanup = new Cleanup();
    try {
      const path = await pathOf(await begin(cleanup));
      rows.push([name, before, goal, `${path.size}/${functionsOf(path)}`]);
      if (!names) continue;
      console.log(`\n${name}`);
      for (const [file, functions] of path) console.log(`  ${file}: ${functions.join(' ')}`);
    } finally {
      await cleanup.run();
    }
  }
  console.log('\nFiles and functions that one call passes through');
  console.log(table(['call', 'reviewed', 'goal', 'now'], rows));
}
