import { closeSync, fsyncSync, linkSync, lstatSync, openSync, rmSync, utimesSync } from 'node:fs';
import { StepwellError } from '../../errors.ts';
import { kindOf } from '../../indexes/kinds.ts';
import { checkSignal, refuseAborted } from '../abortable.ts';
import type { AsyncStore, OpenOptions } from '../api.ts';
import {
  checkFlag,
  checkFunction,
  checkOptions,
  invalid,
  shown,
  unsupported,
} from '../arguments.ts';
import { asStepwellError, guardIo } from '../io-errors.ts';
import { createSync, inspect, open, storeOptions } from '../open.ts';
import { draftOf, linkTarget, removeAbandoned } from '../places/pool-files.ts';
import { type FileLocation, parseUrl } from '../places/pool-place.ts';
import { isRemote } from '../remote/address.ts';
import type { CopyReport, PoolReport } from '../reports.ts';
import { checkStoreName } from '../store-in-pool.ts';

/** Records that are read, and then written, together. */
const PAGE = 256;

/** The stores to copy, and the size of the new pool. */
export interface CopyOptions
  extends Pick<
    OpenOptions,
    'size' | 'regionSize' | 'maxClients' | 'secret' | 'tls' | 'timeoutMs' | 'signal'
  > {
  /** Copies only these stores. Default: all. */
  stores?: readonly string[];
  /** Whether to copy even if other clients are attached to the old pool. */
  live?: boolean;
  /** Called after each page, with the records that the store's copy has so far. */
  onProgress?: (store: string, records: number) => void;
}

const OPTIONS: Readonly<Record<keyof CopyOptions, true>> = {
  size: true,
  regionSize: true,
  maxClients: true,
  secret: true,
  tls: true,
  timeoutMs: true,
  signal: true,
  stores: true,
  live: true,
  onProgress: true,
};

/**
 * Makes a new pool of other sizes and copies stores into it: indexes with the parameters that were
 * chosen for them, bounds, records with their kinds and deadlines, and what helpers keep.
 * Parameters that followed from the old pool's size follow from the new one's. Records get new
 * versions, their uses count from 0, and sliding times restart.
 *
 * The old pool is only read. The new one is made under another name, and gets its own when all of
 * it is there: a copy that is interrupted, however, leaves no pool at that name.
 *
 * @param from Any pool that another process can open, `tcp://…` too.
 * @param to `shm:NAME` or `file:PATH`, which is not there yet. A memory node lends such a file.
 * @param options.size Default: twice the old maximum. `maxClients`: as the old pool.
 * @throws StepwellError SW_POOL_EXISTS; SW_POOL_BUSY while other clients are attached to the old
 *   pool, unless `live`: what they write meanwhile may be missing; SW_STORE_NOT_FOUND; SW_POOL_FULL
 *   when `size` is too small; SW_ABORTED; SW_UNSUPPORTED for `memory:`, and memory nodes as `to`.
 */
export async function copyPool(
  from: string,
  to: string,
  options: CopyOptions = {},
): Promise<CopyReport> {
  checkOptions(options, Object.keys(OPTIONS));
  const { live, secret, tls, timeoutMs } = options;
  checkOwnOptions(options);
  const target = targetOf(to);
  const credentials = { secret, tls, timeoutMs, client: 'stepwell copy' };
  const old = await inspect(from, credentials);
  const chosen = chosenStores(old, options.stores);
  if (!live) refuseBusy(old);
  const size = options.size ?? 2 * old.sizeMax;
  const maxClients = options.maxClients ?? old.maxClients;
  const draft = draftOf(target.path);
  const source = { url: from, credentials };
  try {
    createSync(`file:${draft}`, { size, regionSize: options.regionSize, maxClients });
    const stores: CopyReport['stores'] = [];
    for (const store of chosen) {
      const records = await copyStore(source, store.name, draft, options);
      stores.push({ name: store.name, index: store.index, records });
    }
    if (!live) refuseBusy(await inspect(from, credentials));
    publish(draft, target);
    return { url: to, sizeMax: (await inspect(to)).sizeMax, maxClients, stores };
  } catch (error) {
    throw asStepwellError(to, target.path, error, 'create');
  } finally {
    rmSync(draft, { force: true });
  }
}

/** Raises SW_INVALID_ARGUMENT. Other options are checked where they are used. */
function checkOwnOptions({ live, onProgress, signal, stores }: CopyOptions): void {
  checkFlag('live', live);
  if (onProgress !== undefined) checkFunction('onProgress', onProgress);
  checkSignal(signal);
  if (stores === undefined || Array.isArray(stores)) return;
  throw invalid(`stores are an array of names, not ${shown(stores)}`);
}

interface Source {
  url: string;
  credentials: OpenOptions;
}

/** Where to make the copy. Raises an error if no copy can be made there. */
function targetOf(to: string): FileLocation {
  if (isRemote(to)) {
    throw unsupported(
      `${to}: a copy is made in a file, which a memory node then lends: copy to file:PATH on its ` +
        'machine, and start stepwell memory-node --file PATH',
    );
  }
  const location = parseUrl(to);
  if (location.kind === 'memory') {
    throw unsupported('a memory: pool ends with this process');
  }
  const path = guardIo(to, location.path, () => linkTarget(location.path), 'create');
  if (lstatSync(path, { throwIfNoEntry: false }) !== undefined) throw exists(to);
  removeAbandoned(path, to);
  return { ...location, path };
}

function exists(to: string): StepwellError {
  return new StepwellError('SW_POOL_EXISTS', `there is something at ${to} already`);
}

type StoreReport = PoolReport['stores'][number];

/** Raises SW_STORE_NOT_FOUND, and SW_UNSUPPORTED for a store of a later version. */
function chosenStores(old: PoolReport, names: CopyOptions['stores']): StoreReport[] {
  const ready = old.stores.filter(({ state }) => state === 'ready');
  for (const name of names ?? []) {
    checkStoreName(name);
    if (ready.some((store) => store.name === name)) continue;
    throw new StepwellError('SW_STORE_NOT_FOUND', `no store ${name} in ${old.url}`);
  }
  const chosen = names === undefined ? ready : ready.filter(({ name }) => names.includes(name));
  for (const { name, index: kind } of chosen) kindOf({ name, kind });
  return chosen;
}

function refuseBusy({ url, clients }: PoolReport): void {
  const others = clients.filter(({ alive, self }) => alive && !self);
  if (others.length === 0) return;
  const names = others.slice(0, 5).map(({ name, pid }) => `${name} (pid ${pid})`);
  throw new StepwellError(
    'SW_POOL_BUSY',
    `${others.length} clients are attached to ${url}, ${names.join(', ')}: end them, or copy ` +
      'with --live (live: true), and what they write meanwhile may be missing',
  );
}

/** Copies a store; returns how many records it had. */
async function copyStore(
  { url, credentials }: Source,
  name: string,
  draft: string,
  { signal, onProgress }: CopyOptions,
): Promise<number> {
  const from = await open(url, { ...credentials, store: name, readOnly: true });
  try {
    const to = await open(`file:${draft}`, {
      ...(await storeOptions(url, name, credentials)),
      store: name,
      client: 'stepwell copy',
    });
    try {
      return await copyRecords(from, to, (records) => {
        refuseAborted('the copy', signal);
        // So that no other creator takes the draft for an abandoned one.
        utimesSync(draft, new Date(), new Date());
        onProgress?.(name, records);
      });
    } finally {
      await to.close();
    }
  } finally {
    await from.close();
  }
}

async function copyRecords(
  from: AsyncStore,
  to: AsyncStore,
  progress: (records: number) => void,
): Promise<number> {
  let records = 0;
  for (let cursor = 0; ; ) {
    const page = await from.copyPage(cursor, PAGE);
    await to.putCopies(page.records);
    records += page.records.length;
    progress(records);
    cursor = page.cursor;
    if (cursor === 0) return records;
  }
}

/** The copy is complete: gives it its name. */
function publish(draft: string, { path, url }: FileLocation): void {
  const fd = openSync(draft, 'r+');
  try {
    // If the machine crashes, the name must not survive without the records.
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
  try {
    linkSync(draft, path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') throw exists(url);
    throw error;
  }
}
