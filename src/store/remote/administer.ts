import { hasCode, StepwellError } from '../../errors.ts';
import type { TcpFabric } from '../../fabrics/tcp/client/tcp-fabric.ts';
import { PAGES_ANSWERS, type PagesAnswer } from '../../fabrics/tcp/method-arguments.ts';
import { TcpRegistrar } from '../../fabrics/tcp/node/registrar.ts';
import { ERASE, PAGES } from '../../fabrics/tcp/node-methods.ts';
import { control } from '../../pool/control.ts';
import { type PoolParameters, SUPERBLOCK } from '../../pool/layout.ts';
import { RemotePool } from '../../pool/remote-pool.ts';
import { runRemote, waitFor } from '../../verbs/index.ts';
import { type OwnClient, type PoolClient, taskNamed } from '../administration/tasks.ts';
import type { OpenOptions } from '../api.ts';
import { invalid } from '../arguments.ts';
import type { PoolReport } from '../reports.ts';
import { poolSizes } from '../sizes.ts';
import { clientName, namesStore, refuseUnlessBusy, refuseUnlessThere } from '../store-in-pool.ts';
import { credentialsOf, parseRemote, type RemoteLocation } from './address.ts';
import {
  attachRemote,
  connectNodes,
  networkThread,
  newParameters,
  refuseOtherOrder,
  verifyNodes,
} from './attach.ts';
import { createOnNodes, otherNodes, refuseLeftParts, refuseOtherCount } from './create-on-nodes.ts';
import {
  digestOf,
  headKind,
  parseMark,
  poolIn,
  readHead,
  readImages,
  refusalOf,
} from './node-heads.ts';
import { inFlight, RemoteClients } from './remote-clients.ts';

/** Records that a check reads together. */
const CHECKED_AT_ONCE = 128;

/** Attaches a separate client to a pool on memory nodes. Raises what `open` raises. */
export async function attachAlone(url: string, options: OpenOptions): Promise<OwnClient> {
  const location = parseRemote(url);
  const credentials = credentialsOf(location, options);
  const name = clientName(options);
  const { pool, fabric } = await attachRemote(location, credentials, options, name);
  const client: PoolClient = {
    pool,
    url: location.url,
    *enter() {
      const gate = pool.enter();
      if (gate !== undefined) yield* waitFor(gate);
    },
    exit: () => pool.exit(),
    *memory() {
      const { report } = fabric;
      if (report === undefined) return { path: '', hugePages: false };
      return { path: '', ...(yield* waitFor(pagesOf(fabric))), fabric: report };
    },
    lookAgain: () => waitFor(RemoteClients.ofThread().lookAgain()),
    each: (items, act) => waitFor(inFlight(items, CHECKED_AT_ONCE, (item) => pool.run(act(item)))),
  };
  return {
    perform: (task, ...args) => pool.run(taskNamed(task)(client, ...args)),
    close: () => pool.close().finally(() => fabric.close()),
  };
}

const WHY_NOT: Readonly<Record<Exclude<PagesAnswer, 'huge'>, string>> = {
  refused: 'the system gives none: transparent_hugepage/enabled is never',
  'none yet': 'little of the memory is in use, or the system had none left',
  'small in the file': "the file's system gives none; a tmpfs with huge=advise does",
};

/** Whether all nodes have huge pages; if not, why the first one has none. */
async function pagesOf(
  fabric: TcpFabric,
): Promise<Pick<PoolReport, 'hugePages' | 'whyNoHugePages'>> {
  for (let node = 0; node < fabric.nodes; node++) {
    const [number] = await fabric.call(node, PAGES, new Uint8Array(0)).catch(unlessUnknown);
    const answer = PAGES_ANSWERS[number];
    if (answer === 'huge') continue;
    return { hugePages: false, ...(answer && { whyNoHugePages: WHY_NOT[answer] }) };
  }
  return { hugePages: true };
}

/** An older node does not know the call. */
function unlessUnknown(error: unknown): Uint8Array {
  if (hasCode(error, 'SW_UNSUPPORTED')) return new Uint8Array(0);
  throw error;
}

/** As `createSync`, on memory nodes; see `create`. */
export async function createRemote(url: string, options: OpenOptions): Promise<boolean> {
  const location = parseRemote(url);
  const wanted = { ...options, store: options.store ?? location.store };
  const isNew = await createEmpty(location, url, wanted).then(
    () => true,
    (error: unknown) => refuseUnlessThere(error, wanted),
  );
  if (!namesStore(wanted)) return isNew;
  try {
    const client = await attachAlone(url, { ...wanted, create: false });
    await Promise.resolve(client.perform('make', wanted)).finally(() => client.close());
    return isNew;
  } catch (error) {
    if (isNew) await destroyRemote(location.url, options).catch(refuseUnlessBusy);
    throw error;
  }
}

async function createEmpty(
  location: RemoteLocation,
  url: string,
  options: OpenOptions,
): Promise<void> {
  await connected(location, options, async (fabric) => {
    const [{ regionBytes }] = fabric.welcomes;
    if ((poolSizes(options).regionSize ?? regionBytes) !== regionBytes) {
      throw invalid(`the memory nodes of ${url} have regions of ${regionBytes} bytes`);
    }
    const parameters = newParameters(fabric, options, url);
    const head = await createOnNodes(fabric, parameters, location.url);
    // If two clients create a pool at the same time, one wins. The other finds the winner's
    // identity here.
    const { poolId } = await verifyNodes(fabric, head, location.url);
    if (poolId === parameters.poolId) return;
    throw new StepwellError('SW_POOL_EXISTS', `there is a pool at ${location.url} already`);
  });
}

/** Makes the memory nodes blank; see `destroyOnNodes`. */
export async function destroyRemote(
  url: string,
  { force = false, ...options }: OpenOptions & { force?: boolean },
): Promise<void> {
  const location = parseRemote(url);
  if (location.store !== undefined) {
    const why = `names the store ${location.store}; a pool goes as a whole: ${location.url}`;
    throw invalid(`${url} ${why}`);
  }
  await connected(location, options, (fabric) => destroyOnNodes(fabric, location.url, force));
}

async function connected(
  location: RemoteLocation,
  options: OpenOptions,
  use: (fabric: TcpFabric) => Promise<void>,
): Promise<void> {
  const fabric = await connectNodes(location, credentialsOf(location, options));
  try {
    await use(fabric);
  } finally {
    fabric.close();
  }
}

/**
 * Makes the memory nodes blank. Raises SW_POOL_BUSY while a client lives, unless forced: then it is
 * revoked. A client that maps a node's file itself cannot be revoked, and counts as living.
 *
 * The last node comes first. From then on no client opens the pool, because a part of it is missing
 * (SW_POOL_NOT_FOUND), and no client uses it, because each had a connection to that node. The first
 * node comes last: after a crash in between, its superblock still says what belongs to the pool.
 */
export async function destroyOnNodes(
  fabric: TcpFabric,
  url: string,
  force: boolean,
): Promise<void> {
  const head = await readHead(fabric);
  const images = await readImages(fabric);
  if (images.every((image) => headKind(image) === 'blank')) {
    throw new StepwellError('SW_POOL_NOT_FOUND', `no pool at ${url}`);
  }
  refuseOtherOrder(head, url);
  const pool = force ? poolByForce(head, url) : await unusedPool(fabric, head, url);
  await refuseOtherParts(fabric, pool, images, url);
  // Also blank nodes: a creator that continues late must be revoked there before it marks them.
  for (let node = images.length - 1; node >= 0; node--) {
    await fabric.call(node, ERASE, images[node]);
  }
}

/** With force, a damaged pool or one of another version may be removed. */
function poolByForce(head: Uint8Array, url: string): PoolParameters | undefined {
  try {
    return poolIn(head, url);
  } catch (error) {
    if (hasCode(error, 'SW_POOL_FOREIGN')) throw error;
    return undefined;
  }
}

async function unusedPool(
  fabric: TcpFabric,
  head: Uint8Array,
  url: string,
): Promise<PoolParameters | undefined> {
  const pool = poolIn(head, url);
  if (pool === undefined) {
    await refuseLeftParts(fabric, url);
    return undefined;
  }
  refuseOtherCount(fabric, pool, url);
  // No client has a row in a pool that was not published.
  if (headKind(head) === 'superblock') await refuseWhileBusy(fabric, pool, url);
  return pool;
}

async function refuseWhileBusy(
  fabric: TcpFabric,
  parameters: PoolParameters,
  url: string,
): Promise<void> {
  const registrar = new TcpRegistrar(fabric.nodes);
  const pool = new RemotePool(fabric, parameters, networkThread(fabric), registrar);
  const rows = await runRemote(fabric, pool.membership.rows());
  const living = await runRemote(fabric, pool.membership.living(rows));
  if (living.length === 0) return;
  const names = living.map(({ name, thread }) => `${name} (process ${thread.pid})`).join(', ');
  throw new StepwellError('SW_POOL_BUSY', `${url} is in use by ${names}`);
}

/**
 * Refuses to erase parts of another pool, even by force. If the first node does not say which pool
 * it belongs to, the marks of the others must agree. Drafts may go: their pools were never
 * published.
 */
async function refuseOtherParts(
  fabric: TcpFabric,
  pool: PoolParameters | undefined,
  [first, ...others]: readonly Uint8Array[],
  url: string,
): Promise<void> {
  const marks = others.filter((image) => headKind(image) === 'mark');
  const identity = pool ?? (marks.length > 0 ? parseMark(marks[0]) : undefined);
  for (const [i, image] of others.entries()) {
    const kind = headKind(image);
    if (kind === 'blank' || kind === 'draft') continue;
    const refusal = refusalOf(image, i + 1, identity, url);
    if (refusal !== undefined) throw refusal;
  }
  const isWhole = pool?.nodes === 1 + marks.length && headKind(first) === 'superblock';
  if (!isWhole) return;
  const digest = await runRemote(fabric, control.load(SUPERBLOCK.nodesDigest));
  if (digest !== digestOf(marks)) throw otherNodes(url);
}
