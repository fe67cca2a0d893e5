import { hasCode, StepwellError } from '../../errors.ts';
import type { TcpFabric } from '../../fabrics/tcp/client/tcp-fabric.ts';
import { PAGES_ANSWERS, type PagesAnswer } from '../../fabrics/tcp/method-arguments.ts';
import { PAGES } from '../../fabrics/tcp/node-methods.ts';
import { openIndex } from '../../indexes/kinds.ts';
import type { RemotePool } from '../../pool/remote-pool.ts';
import { type Operation, waitFor } from '../../verbs/index.ts';
import { checkStores } from '../administration/check.ts';
import { freeDropped, markDropped } from '../administration/drop-store.ts';
import { reportPool } from '../administration/inspect.ts';
import type { OpenOptions } from '../api.ts';
import type { CheckOptions, CheckReport, DropReport, PoolReport } from '../reports.ts';
import { clientName, makeStore, mayBeThere, namesStore } from '../store-in-pool.ts';
import { connectNodes, credentialsOf, parseRemote, type RemoteLocation } from './address.ts';
import { attachRemote, newParameters, verifyNodes } from './attach.ts';
import { createOnNodes } from './create-on-nodes.ts';
import { destroyOnNodes } from './destroy-on-nodes.ts';
import { inFlight, RemoteClients } from './remote-clients.ts';

/** Records that a check looks at together. */
const CHECKED_AT_ONCE = 128;

/** What the pool on memory nodes is; see `inspect`. */
export function inspectRemote(url: string, options: OpenOptions): Promise<PoolReport> {
  return withPool(url, options, function* (pool, { url: shown }, fabric) {
    const { report } = fabric;
    const pages = report ? yield* waitFor(pagesOf(fabric)) : { hugePages: false };
    const place = { url: shown, path: '', ...pages, ...(report && { fabric: report }) };
    return yield* reportPool(pool, place);
  });
}

const WHY_NOT: Readonly<Record<Exclude<PagesAnswer, 'huge'>, string>> = {
  refused: 'the system gives none: transparent_hugepage/enabled is never',
  'none yet': 'little of the memory is in use, or the system had none left',
  'small in the file': "the file's system gives none; a tmpfs with huge=advise does",
};

/** Yes when all nodes have them; else why the first has not. */
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

/** A node of an earlier version has no such call. */
function unlessUnknown(error: unknown): Uint8Array {
  if (hasCode(error, 'SW_UNSUPPORTED')) return new Uint8Array(0);
  throw error;
}

/** As `checkSync`, by READs alone; see `check`. */
export function checkRemote(
  url: string,
  options: OpenOptions & CheckOptions,
): Promise<CheckReport> {
  return withPool(url, options, (pool, place) => {
    function* each<T>(items: readonly T[], act: (item: T) => Operation<void>): Operation<void> {
      yield* waitFor(inFlight(items, CHECKED_AT_ONCE, (item) => pool.run(act(item))));
    }
    return checkStores(pool, place.url, (entry) => openIndex(pool, entry), { ...options, each });
  });
}

/** As `dropStoreSync`; see `dropStore`. */
export function dropRemote(
  url: string,
  store: string,
  force: boolean,
  options: OpenOptions,
): Promise<DropReport> {
  const clients = RemoteClients.ofThread();
  return withPool(url, options, function* (pool, place) {
    const dropped = yield* markDropped(pool, place.url, store, force);
    // So that those of this thread let go of it now.
    yield* waitFor(clients.lookAgain());
    return yield* freeDropped(pool, dropped);
  });
}

async function withPool<T>(
  url: string,
  options: OpenOptions,
  operation: (pool: RemotePool, location: RemoteLocation, fabric: TcpFabric) => Operation<T>,
): Promise<T> {
  const location = parseRemote(url);
  const credentials = credentialsOf(location, options);
  const existing = { ...options, create: false };
  const client = clientName(options);
  const { pool, fabric } = await attachRemote(location, credentials, existing, client, undefined);
  try {
    await pool.enter();
    try {
      return await pool.run(operation(pool, location, fabric));
    } finally {
      pool.exit();
      await pool.close();
    }
  } finally {
    fabric.close();
  }
}

/** As `createSync`, on memory nodes; see `create`. */
export async function createRemote(url: string, options: OpenOptions): Promise<boolean> {
  const location = parseRemote(url);
  const wanted = { ...options, store: options.store ?? location.store };
  const isNew = await makesPool(location, url, wanted);
  if (!namesStore(wanted)) return isNew;
  try {
    await withPool(url, wanted, (pool) => makeStore(pool, wanted));
    return isNew;
  } catch (error) {
    if (isNew) await destroyUnused(location.url, options);
    throw error;
  }
}

/** False when there is a pool, and a store in it was asked for. */
async function makesPool(
  location: RemoteLocation,
  url: string,
  options: OpenOptions,
): Promise<boolean> {
  try {
    await createEmpty(location, url, options);
    return true;
  } catch (error) {
    if (hasCode(error, 'SW_POOL_EXISTS') && mayBeThere(options)) return false;
    throw error;
  }
}

/** A pool that another client has opened meanwhile stays. */
async function destroyUnused(url: string, options: OpenOptions): Promise<void> {
  try {
    await destroyRemote(url, options);
  } catch (error) {
    if (!hasCode(error, 'SW_POOL_BUSY')) throw error;
  }
}

async function createEmpty(
  location: RemoteLocation,
  url: string,
  options: OpenOptions,
): Promise<void> {
  await connected(location, options, async (fabric) => {
    const [{ regionBytes }] = fabric.welcomes;
    if ((options.regionSize ?? regionBytes) !== regionBytes) {
      throw new StepwellError(
        'SW_INVALID_ARGUMENT',
        `the memory nodes of ${url} have regions of ${regionBytes} bytes`,
      );
    }
    const parameters = newParameters(fabric, options, url);
    const head = await createOnNodes(fabric, parameters, location.url);
    // Of two creators one wins; the other finds the identity of that one's pool.
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
    throw new StepwellError('SW_INVALID_ARGUMENT', `${url} ${why}`);
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
