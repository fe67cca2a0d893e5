import { StepwellError } from '../../errors.ts';
import { ERASE, HEAD_IMAGE_BYTES, INITIALISE } from '../../fabrics/tcp/calls.ts';
import { TcpRegistrar } from '../../fabrics/tcp/registrar.ts';
import { TcpFabric } from '../../fabrics/tcp/tcp-fabric.ts';
import { openIndex } from '../../indexes/kinds.ts';
import type { ClientRow } from '../../pool/membership.ts';
import { RemotePool } from '../../pool/remote-pool.ts';
import { formatSuperblock, parseSuperblock } from '../../pool/superblock.ts';
import { addressOf, Batch, type Operation, runRemote, Scratch } from '../../verbs/index.ts';
import type { CheckReport, OpenOptions, PoolReport } from '../api.ts';
import { checkStores } from '../check.ts';
import { reportPool } from '../inspect.ts';
import { clientName } from '../store-in-pool.ts';
import { credentialsOf, parseRemote, type RemoteLocation } from './address.ts';
import {
  attachRemote,
  firstWord,
  joinNodes,
  networkThread,
  newParameters,
  readHead,
  refuseOtherOrder,
  refuseOtherShape,
  sizeOf,
} from './attach.ts';

/** What the pool on memory nodes is; see `inspect`. */
export function inspectRemote(url: string, options: OpenOptions): Promise<PoolReport> {
  return withPool(url, options, (pool, place) =>
    reportPool(pool.pool, { url: place.url, path: '', hugePages: false }),
  );
}

/** As `checkPool`, by READs alone; see `check`. */
export function checkRemote(
  url: string,
  options: OpenOptions & { onProgress?: (done: number, total: number) => void },
): Promise<CheckReport> {
  return withPool(url, options, ({ pool }, place) =>
    checkStores(pool, place.url, (entry) => openIndex(pool, entry), options.onProgress),
  );
}

async function withPool<T>(
  url: string,
  options: OpenOptions,
  operation: (pool: RemotePool, location: RemoteLocation) => Operation<T>,
): Promise<T> {
  const location = parseRemote(url);
  const credentials = credentialsOf(location, options);
  const existing = { ...options, create: false };
  const client = clientName(options);
  const { pool, fabric } = await attachRemote(location, credentials, existing, client, undefined);
  try {
    await pool.enter();
    try {
      return await pool.run(operation(pool, location));
    } finally {
      pool.exit();
      await pool.close();
    }
  } finally {
    fabric.close();
  }
}

/** Makes an empty pool on memory nodes. Raises SW_POOL_EXISTS when there is one. */
export async function createRemote(url: string, options: OpenOptions): Promise<void> {
  const location = parseRemote(url);
  await connected(location, options, async (fabric) => {
    const [{ regionBytes }] = fabric.welcomes;
    if ((options.regionSize ?? regionBytes) !== regionBytes) {
      throw new StepwellError(
        'SW_INVALID_ARGUMENT',
        `the memory nodes of ${url} have regions of ${regionBytes} bytes`,
      );
    }
    sizeOf(fabric, url);
    const parameters = newParameters(fabric, options);
    const image = formatSuperblock(parameters);
    // Of two creators one wins; the other finds another image than its own.
    const found = await fabric.call(0, INITIALISE, image);
    if (Buffer.compare(found, image) !== 0) {
      throw new StepwellError('SW_POOL_EXISTS', `there is a pool at ${location.url} already`);
    }
    await joinNodes(fabric, parameters, location.url);
  });
}

/**
 * Makes the memory nodes blank. Raises SW_POOL_BUSY while a client lives, unless forced: then it is
 * revoked. One that maps a node's file itself cannot be, and counts as living.
 *
 * The first node comes first: from then on there is no pool. Who dies in between leaves parts of it
 * on the others, which open as SW_POOL_FOREIGN until this is done again.
 */
export async function destroyRemote(
  url: string,
  { force = false, ...options }: OpenOptions & { force?: boolean },
): Promise<void> {
  const location = parseRemote(url);
  if (location.store !== undefined) {
    const why = `names the store ${location.store}; a pool goes as a whole: ${location.url}`;
    throw new StepwellError('SW_INVALID_ARGUMENT', `${url} ${why}`);
  }
  await connected(location, options, async (fabric) => {
    const head = await readHead(fabric);
    const images = await readImages(fabric);
    const used = images.flatMap((image, node) => (firstWord(image) === 0n ? [] : [node]));
    if (used.length === 0) {
      throw new StepwellError('SW_POOL_NOT_FOUND', `no pool at ${location.url}`);
    }
    refuseOtherOrder(head, location.url);
    if (used[0] === 0) {
      if (force) refuseForeign(head, location.url);
      else await refuseWhileBusy(fabric, head, location.url);
    }
    for (const node of used) await fabric.call(node, ERASE, images[node]);
  });
}

/** The first bytes of every node, by which it knows later that it still holds the same pool. */
async function readImages(fabric: TcpFabric): Promise<Uint8Array[]> {
  const images = new Scratch(fabric.nodes * HEAD_IMAGE_BYTES);
  const batch = new Batch();
  const offsets = Array.from({ length: fabric.nodes }, (_, node) => node * HEAD_IMAGE_BYTES);
  offsets.forEach((offset, node) => {
    batch.read(addressOf(node, 0), HEAD_IMAGE_BYTES, images, offset);
  });
  await runRemote(
    fabric,
    (function* () {
      yield batch;
    })(),
  );
  return offsets.map((offset) => images.u8.slice(offset, offset + HEAD_IMAGE_BYTES));
}

/** A damaged pool may be removed by force, what never was one may not. */
function refuseForeign(head: Uint8Array, url: string): void {
  try {
    parseSuperblock(head, Number.POSITIVE_INFINITY, url);
  } catch (error) {
    if (error instanceof StepwellError && error.code === 'SW_POOL_FOREIGN') throw error;
  }
}

async function refuseWhileBusy(fabric: TcpFabric, head: Uint8Array, url: string): Promise<void> {
  const parameters = parseSuperblock(head, Number.POSITIVE_INFINITY, url);
  refuseOtherShape(fabric, parameters, url);
  const registrar = new TcpRegistrar(fabric.nodes);
  const { pool } = new RemotePool(fabric, parameters, networkThread(fabric), registrar);
  const living = await runRemote(fabric, livingRows(pool));
  if (living.length === 0) return;
  const names = living.map(({ name, thread }) => `${name} (process ${thread.pid})`).join(', ');
  throw new StepwellError('SW_POOL_BUSY', `${url} is in use by ${names}`);
}

function* livingRows({ membership }: RemotePool['pool']): Operation<ClientRow[]> {
  const living: ClientRow[] = [];
  for (const row of yield* membership.rows()) {
    if (!(yield* membership.isGone(row))) living.push(row);
  }
  return living;
}

async function connected(
  location: RemoteLocation,
  options: OpenOptions,
  use: (fabric: TcpFabric) => Promise<void>,
): Promise<void> {
  const fabric = await TcpFabric.connect(location.endpoints, credentialsOf(location, options));
  try {
    await use(fabric);
  } finally {
    fabric.close();
  }
}
