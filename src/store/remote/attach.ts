import { StepwellError } from '../../errors.ts';
import type { Credentials } from '../../fabrics/tcp/client/queue-pair.ts';
import { TcpFabric } from '../../fabrics/tcp/client/tcp-fabric.ts';
import { SESSION_BYTES, sessionTag, writeSession } from '../../fabrics/tcp/method-arguments.ts';
import { TcpRegistrar } from '../../fabrics/tcp/node/registrar.ts';
import { REVOKE } from '../../fabrics/tcp/node-methods.ts';
import { connectUcx } from '../../fabrics/ucx/client/connect.ts';
import { NETWORK_NAMESPACE, type ThreadIdentity } from '../../pool/clients/thread-identity.ts';
import { control } from '../../pool/control.ts';
import { type PoolParameters, SUPERBLOCK } from '../../pool/layout.ts';
import { RemotePool } from '../../pool/remote-pool.ts';
import { parseSuperblock, poolParameters } from '../../pool/superblock.ts';
import { runRemote } from '../../verbs/index.ts';
import type { PoolOptions } from '../api.ts';
import { invalid } from '../arguments.ts';
import { poolSizes } from '../sizes.ts';
import type { RemoteLocation } from './address.ts';
import { createOnNodes, otherNodes, refuseLeftParts, refuseOtherCount } from './create-on-nodes.ts';
import {
  type ConnectedNodes,
  digestOf,
  type HeadKind,
  headKind,
  readHead,
  readImages,
  refusalOf,
} from './node-heads.ts';

/** Connects to all nodes of a pool. Raises what `TcpFabric.connect` and `connectUcx` raise. */
export async function connectNodes(
  { endpoints, fabric }: RemoteLocation,
  credentials: Credentials,
): Promise<TcpFabric> {
  const connect = fabric === 'ucx' ? connectUcx : TcpFabric.connect;
  return connect(endpoints, credentials);
}

/**
 * Connects to all nodes of a pool, creates the pool if the options allow it, and takes a row as its
 * client. `former` is the client of the session before.
 */
export async function attachRemote(
  location: RemoteLocation,
  credentials: Credentials,
  options: PoolOptions & { create?: boolean; readOnly?: boolean },
  client: string,
  former?: { fabric: TcpFabric; poolId: number },
): Promise<{ pool: RemotePool; fabric: TcpFabric }> {
  const fabric = await connectNodes(location, credentials);
  try {
    // So that the clean-up in joining finds this client's own former row.
    if (former !== undefined && !options.readOnly) await revoke(fabric, former.fabric.session);
    const parameters = await adopt(fabric, location.url, options);
    if (former !== undefined) refuseOtherPool(parameters.poolId, former.poolId, location.url);
    const registrar = new TcpRegistrar(fabric.nodes);
    const thread = networkThread(fabric);
    const pool = new RemotePool(fabric, parameters, thread, registrar, options.readOnly);
    await pool.join(client);
    return { pool, fabric };
  } catch (error) {
    fabric.close();
    throw error;
  }
}

/** Identifies a network client in the client table. */
export function networkThread({ session }: TcpFabric): ThreadIdentity {
  const tid = sessionTag(session);
  return { pid: process.pid, tid, startTime: session, boot: 0, namespace: NETWORK_NAMESPACE };
}

async function revoke(fabric: TcpFabric, session: number): Promise<void> {
  const bytes = new Uint8Array(SESSION_BYTES);
  writeSession(bytes, session, false);
  await Promise.all(fabric.welcomes.map((_, node) => fabric.call(node, REVOKE, bytes)));
}

/** The pool on these nodes. Creates it if the options allow that. */
async function adopt(
  fabric: ConnectedNodes,
  url: string,
  options: PoolOptions & { create?: boolean },
): Promise<PoolParameters> {
  let head = await readHead(fabric);
  const kind = headKind(head);
  if (kind === 'blank' || kind === 'draft') {
    if (options.create === false) throw await notThere(fabric, kind, url);
    head = await createOnNodes(fabric, newParameters(fabric, options, url), url);
  }
  return verifyNodes(fabric, head, url);
}

async function notThere(
  fabric: ConnectedNodes,
  kind: HeadKind,
  url: string,
): Promise<StepwellError> {
  if (kind === 'blank') await refuseLeftParts(fabric, url);
  const hold = kind === 'blank' ? 'hold no pool' : 'hold a pool whose creation has not ended';
  return new StepwellError('SW_POOL_NOT_FOUND', `the memory nodes of ${url} ${hold}`);
}

/**
 * A pool that was destroyed and created again has another identity, and none of this store's data.
 */
export function refuseOtherPool(poolId: number, former: number, url: string): void {
  if (poolId === former) return;
  const why = 'has been replaced by another one; open the store anew';
  throw new StepwellError('SW_POOL_NOT_FOUND', `the pool at ${url} ${why}`);
}

/**
 * The pool with this superblock, after checking that every node of the URL is the one with which
 * the pool was created, and still has its memory. Clients only read: a blank node is lost, and only
 * a creation may write to it.
 */
export async function verifyNodes(
  fabric: ConnectedNodes,
  head: Uint8Array,
  url: string,
): Promise<PoolParameters> {
  refuseOtherOrder(head, url);
  const parameters = parseSuperblock(head, Number.POSITIVE_INFINITY, url);
  refuseOtherCount(fabric, parameters, url);
  if (fabric.nodes > 1) {
    // After the superblock, which the creator publishes last: all marks are there by now.
    const [, ...marks] = await readImages(fabric);
    for (const [i, mark] of marks.entries()) {
      const refusal = refusalOf(mark, i + 1, parameters, url);
      if (refusal !== undefined) throw refusal;
    }
    const digest = await runRemote(fabric, control.load(SUPERBLOCK.nodesDigest));
    if (digest !== digestOf(marks)) throw otherNodes(url);
  }
  const { regionBytes } = parameters;
  if (regionBytes !== fabric.welcomes[0].regionBytes) {
    const why = `has regions of ${regionBytes} bytes: start its nodes with that size`;
    throw invalid(`the pool at ${url} ${why}`);
  }
  return parseSuperblock(head, sizeOf(fabric, url), url);
}

/** The first node of a URL holds the superblock. Raises SW_INVALID_URL. */
export function refuseOtherOrder(head: Uint8Array, url: string): void {
  if (headKind(head) !== 'mark') return;
  throw new StepwellError(
    'SW_INVALID_URL',
    `the first memory node of ${url} is not the first of its pool: keep their order`,
  );
}

/**
 * Bytes of all nodes together, each counted as large as the smallest one. Raises
 * SW_INVALID_ARGUMENT.
 */
export function sizeOf({ welcomes }: ConnectedNodes, url: string): number {
  const [{ regionBytes }] = welcomes;
  if (welcomes.some((one) => one.regionBytes !== regionBytes)) {
    throw invalid(
      `memory nodes of ${url} have regions of different sizes; give all the same --region-size`,
    );
  }
  return regionBytes * welcomes.length * Math.min(...welcomes.map(({ regions }) => regions));
}

/** Raises SW_INVALID_ARGUMENT. */
export function newParameters(
  fabric: ConnectedNodes,
  options: PoolOptions,
  url: string,
): PoolParameters {
  const size = sizeOf(fabric, url);
  const { nodes, welcomes } = fabric;
  const [{ regionBytes }] = welcomes;
  const { size: wanted = 0 } = poolSizes(options);
  if (wanted > size) {
    throw invalid(`the memory nodes have ${size} bytes together`);
  }
  const { maxClients } = options;
  return poolParameters({ size, regionSize: regionBytes, maxClients, nodes }, { size });
}
