import { type Endpoint, urlHost } from '../../fabrics/tcp/endpoint.ts';
import { isPlaced, type NodePlacement } from '../../indexes/contract.ts';
import { CHUNK_BYTES } from '../../pool/layout.ts';
import { CHUNK_SPAN, holdsBlocks, unpackChunk } from '../../pool/memory/chunk-word.ts';
import { checkSignal } from '../abortable.ts';
import type { OpenOptions } from '../api.ts';
import { checkFunction, checkOptions, invalid, shown, unsupported } from '../arguments.ts';
import { credentialsOf, parseEndpoint, parseRemote, type RemoteLocation } from './address.ts';
import { RemoteClients, type Session } from './remote-clients.ts';

/** How many parts of an index are moved at the same time. */
const MOVES_AT_ONCE = 8;

/** A store's parts on one memory node. */
export interface MemoryNodeReport {
  /** From 1 on, in the order of the pool's URL. */
  number: number;
  /** `host:port`, as the URL has it. */
  address: string;
  /** Whether the index puts parts of itself on this node; undefined when it does not place them. */
  placed: boolean | undefined;
  /** Parts (SHARD: partitions) of the index on this node. */
  parts: number | undefined;
  /** Bytes of the index's tables on this node, if the index places them. */
  tables: number | undefined;
  /** Bytes of chunks that the store has there: blocks of tables, blocks of records, and spans. */
  memory: { tables: number; records: number; spans: number };
}

/** Which memory nodes a store's index is placed on; the rest is as for `open`. */
export interface MemoryNodesOptions
  extends Pick<OpenOptions, 'store' | 'secret' | 'tls' | 'timeoutMs' | 'client'> {
  /** Nodes to place parts on: numbers from 1 on, or addresses as in the URL. */
  add?: readonly string[];
  /** Nodes to move parts away from. They remain nodes of the pool and keep records. */
  remove?: readonly string[];
  /** Called after each part that has been checked and, if necessary, moved. */
  onProgress?: (done: number, total: number) => void;
  /** Stops the moves between two steps. What has been moved stays; a later call continues. */
  signal?: AbortSignal;
}

const OPTIONS: Readonly<Record<keyof MemoryNodesOptions, true>> = {
  store: true,
  secret: true,
  tls: true,
  timeoutMs: true,
  client: true,
  add: true,
  remove: true,
  onProgress: true,
  signal: true,
};

/** Where the store's parts are after the moves. */
export interface MemoryNodesReport {
  store: string;
  index: string;
  /** How many parts were moved. */
  moved: number;
  nodes: MemoryNodeReport[];
}

/**
 * Tells what of a store is on which memory node and, with `add` or `remove`, changes the nodes that
 * its index is placed on. Whatever is not where it is to be is moved there, while all clients go
 * on; a call that was interrupted is completed by the next. It may be repeated without `add` and
 * `remove` for that.
 *
 * @throws StepwellError SW_UNSUPPORTED when the index places nothing (only SHARD does),
 *   SW_INVALID_ARGUMENT for a node that the pool does not have, or when none would be left,
 *   SW_POOL_FULL when a node has no room: what has been moved stays there.
 */
export async function memoryNodes(
  url: string,
  options: MemoryNodesOptions = {},
): Promise<MemoryNodesReport> {
  checkOptions(options, Object.keys(OPTIONS));
  const { add = [], remove = [], store, onProgress, signal } = options;
  if (onProgress !== undefined) checkFunction('onProgress', onProgress);
  checkSignal(signal);
  for (const list of [add, remove]) {
    const fine = Array.isArray(list) && list.every((one) => typeof one === 'string');
    if (!fine) throw invalid(`add and remove are arrays of texts, not ${shown(list)}`);
  }
  const location = parseRemote(url);
  const name = store ?? location.store ?? 'default';
  const named = { client: options.client ?? 'memory nodes', store: name, create: false };
  const credentials = credentialsOf(location, options);
  const session = await new RemoteClients().open(location, credentials, named);
  try {
    const change = changeOf(location, add, remove);
    const { index } = session;
    let moved = 0;
    if (isPlaced(index) && location.endpoints.length > 1) {
      if (add.length + remove.length > 0)
        await session.runOne(() => index.placement.changeNodes(change));
      moved = await rebalance(session, index.placement, onProgress, signal);
    } else if (add.length + remove.length > 0) {
      throw unsupported(`${url} has nothing that is placed on nodes`);
    }
    const nodes = await report(session, location);
    return { store: name, index: index.manifest.name, moved, nodes };
  } finally {
    await session.close();
  }
}

/** Raises SW_INVALID_ARGUMENT. */
function changeOf(
  location: RemoteLocation,
  add: readonly string[],
  remove: readonly string[],
): (nodes: readonly number[]) => number[] {
  const added = add.map((text) => nodeNamed(text, location));
  const removed = new Set(remove.map((text) => nodeNamed(text, location)));
  return (nodes) => {
    const left = [...new Set([...nodes, ...added])].filter((node) => !removed.has(node));
    if (left.length > 0) return left;
    throw invalid('one memory node at least has to be left');
  };
}

function nodeNamed(text: string, { endpoints, url }: RemoteLocation): number {
  if (/^\d+$/.test(text)) {
    if (Number(text) >= 1 && Number(text) <= endpoints.length) return Number(text) - 1;
  } else {
    const node = endpoints.findIndex((endpoint) => isAddress(text, endpoint));
    if (node >= 0) return node;
  }
  throw invalid(`${url} has no memory node ${text}`);
}

function isAddress(text: string, endpoint: Endpoint): boolean {
  try {
    return addressOf(parseEndpoint(text)) === addressOf(endpoint);
  } catch {
    return false;
  }
}

function addressOf({ host, port }: Endpoint): string {
  return `${urlHost(host)}:${port}`;
}

/** Each step of a move is an operation of its own, so that no client waits for an epoch. */
async function rebalance(
  session: Session,
  placement: NodePlacement,
  onProgress: MemoryNodesOptions['onProgress'],
  signal: AbortSignal | undefined,
): Promise<number> {
  const migrations = placement.rebalancing();
  // All workers draw from one iterator.
  const waiting = migrations.values();
  let done = 0;
  const moveSome = async () => {
    for (const part of waiting) {
      while (!part.done) {
        signal?.throwIfAborted();
        await session.runOne(() => part.next());
      }
      onProgress?.(++done, migrations.length);
    }
  };
  await Promise.all(Array.from({ length: MOVES_AT_ONCE }, moveSome));
  return migrations.filter(({ moved }) => moved).length;
}

async function report(session: Session, location: RemoteLocation): Promise<MemoryNodeReport[]> {
  const { index } = session;
  const shares = isPlaced(index) ? await session.runOne(() => index.placement.shares()) : [];
  const { chunks, layout } = session.pool;
  const words = await session.runOne(() => chunks.words());
  const tableUnits = index.records.tableUnits();
  const nodes: MemoryNodeReport[] = location.endpoints.map((endpoint, node) => ({
    number: node + 1,
    address: addressOf(endpoint),
    placed: shares[node]?.placed,
    parts: shares[node]?.parts,
    tables: shares[node]?.bytes,
    memory: { tables: 0, records: 0, spans: 0 },
  }));
  for (const [chunk, word] of words) {
    const { state, catalog, units } = unpackChunk(word);
    if (catalog !== index.records.catalog) continue;
    const { memory } = nodes[layout.nodeOfChunk(chunk)];
    if (state === CHUNK_SPAN) memory.spans += CHUNK_BYTES;
    else if (!holdsBlocks(state)) continue;
    else if (tableUnits.includes(units)) memory.tables += CHUNK_BYTES;
    else memory.records += CHUNK_BYTES;
  }
  return nodes;
}
