import { StepwellError } from '../../errors.ts';
import {
  INITIALISE,
  REVOKE,
  SESSION_BYTES,
  sessionTag,
  writeSession,
} from '../../fabrics/tcp/calls.ts';
import type { Credentials } from '../../fabrics/tcp/queue-pair.ts';
import { TcpRegistrar } from '../../fabrics/tcp/registrar.ts';
import { TcpFabric } from '../../fabrics/tcp/tcp-fabric.ts';
import type { PoolParameters } from '../../pool/layout.ts';
import { RemotePool } from '../../pool/remote-pool.ts';
import {
  formatSuperblock,
  parseSuperblock,
  poolParameters,
  SUPERBLOCK_BYTES,
} from '../../pool/superblock.ts';
import { NETWORK_NAMESPACE, type ThreadIdentity } from '../../pool/thread-identity.ts';
import { Batch, runRemote, Scratch } from '../../verbs/index.ts';
import type { PoolOptions } from '../api.ts';
import type { RemoteLocation } from './address.ts';

/** "STEPNODE": what stands at the start of every node but the first. */
const MEMBER_MAGIC = 0x45_44_4f_4e_50_45_54_53n;
const MEMBER_BYTES = 64;
const MEMBER_REGION_BYTES = 24;
const MEMBER_REGIONS = 32;

/** Connects to all nodes of a pool, makes the pool when it may, and takes a row as its client. */
export async function attachRemote(
  location: RemoteLocation,
  credentials: Credentials,
  options: PoolOptions & { create?: boolean },
  client: string,
  former: number | undefined,
): Promise<{ pool: RemotePool; fabric: TcpFabric; parameters: PoolParameters }> {
  const fabric = await TcpFabric.connect(location.endpoints, credentials);
  try {
    // So that the clean-up in joining finds this client's own former row.
    if (former !== undefined) await revoke(fabric, former);
    const parameters = await adopt(fabric, location.url, options);
    const registrar = new TcpRegistrar(fabric.nodes);
    const pool = new RemotePool(fabric, parameters, networkThread(fabric), registrar);
    await pool.join(client);
    return { pool, fabric, parameters };
  } catch (error) {
    fabric.close();
    throw error;
  }
}

/** Who a client over a network is in the client table. */
export function networkThread({ session }: TcpFabric): ThreadIdentity {
  const tid = sessionTag(session);
  return { pid: process.pid, tid, startTime: session, boot: 0, namespace: NETWORK_NAMESPACE };
}

async function revoke(fabric: TcpFabric, session: number): Promise<void> {
  const bytes = new Uint8Array(SESSION_BYTES);
  writeSession(bytes, session, false);
  await Promise.all(fabric.welcomes.map((_, node) => fabric.call(node, REVOKE, bytes)));
}

/** The pool on these nodes; made, when nothing is there and the caller allows it. */
async function adopt(
  fabric: TcpFabric,
  url: string,
  options: PoolOptions & { create?: boolean },
): Promise<PoolParameters> {
  const memoryBytes = sizeOf(fabric, url);
  let head = await readHead(fabric);
  if (firstWord(head) === 0n) {
    if (options.create === false) {
      throw new StepwellError('SW_POOL_NOT_FOUND', `the memory nodes of ${url} hold no pool`);
    }
    // Of two creators one wins; both go on with what stands there afterwards.
    const image = formatSuperblock(newParameters(fabric, options));
    head = await fabric.call(0, INITIALISE, image);
  }
  refuseOtherOrder(head, url);
  refuseOtherShape(fabric, parseSuperblock(head, Number.POSITIVE_INFINITY, url), url);
  const parameters = parseSuperblock(head, memoryBytes, url);
  await joinNodes(fabric, parameters, url);
  return parameters;
}

/** The first node of a URL holds the superblock. Raises SW_INVALID_URL. */
export function refuseOtherOrder(head: Uint8Array, url: string): void {
  if (firstWord(head) !== MEMBER_MAGIC) return;
  throw new StepwellError(
    'SW_INVALID_URL',
    `the first memory node of ${url} is not the first of its pool: keep their order`,
  );
}

/** Bytes of all nodes, of which each counts as much as the smallest. Raises SW_INVALID_ARGUMENT. */
export function sizeOf({ welcomes }: TcpFabric, url: string): number {
  const [{ regionBytes }] = welcomes;
  if (welcomes.some((one) => one.regionBytes !== regionBytes)) {
    throw new StepwellError(
      'SW_INVALID_ARGUMENT',
      `memory nodes of ${url} have regions of different sizes; give all the same --region-size`,
    );
  }
  return regionBytes * regionsOf(welcomes);
}

function regionsOf(welcomes: TcpFabric['welcomes']): number {
  return welcomes.length * Math.min(...welcomes.map(({ regions }) => regions));
}

export function newParameters(
  { welcomes, nodes }: TcpFabric,
  options: PoolOptions,
): PoolParameters {
  const [{ regionBytes }] = welcomes;
  const size = regionBytes * regionsOf(welcomes);
  if (options.size !== undefined && options.size > size) {
    throw new StepwellError('SW_INVALID_ARGUMENT', `the memory nodes have ${size} bytes together`);
  }
  const { maxClients } = options;
  return poolParameters({ size, regionSize: regionBytes, maxClients, nodes }, { size });
}

export async function readHead(fabric: TcpFabric): Promise<Uint8Array> {
  const head = new Scratch(SUPERBLOCK_BYTES);
  await runRemote(
    fabric,
    (function* () {
      yield new Batch().read(0, SUPERBLOCK_BYTES, head, 0);
    })(),
  );
  return head.u8.slice(0, SUPERBLOCK_BYTES);
}

export function refuseOtherShape(fabric: TcpFabric, parameters: PoolParameters, url: string): void {
  const { nodes = 1, regionBytes } = parameters;
  if (nodes !== fabric.nodes) {
    throw new StepwellError(
      'SW_INVALID_URL',
      `${url} names ${fabric.nodes} memory nodes; the pool is spread over ${nodes}`,
    );
  }
  if (regionBytes !== fabric.welcomes[0].regionBytes) {
    throw new StepwellError(
      'SW_INVALID_ARGUMENT',
      `the pool at ${url} has regions of ${regionBytes} bytes: start its nodes with that size`,
    );
  }
}

/**
 * Marks each other node as the one at this place of this pool, unless it is marked already. Every
 * client does it: a creator that died in between leaves nothing to repair.
 */
export async function joinNodes(fabric: TcpFabric, parameters: PoolParameters, url: string) {
  const joining = fabric.welcomes.slice(1).map(async (_, i) => {
    const node = i + 1;
    const image = memberImage(parameters, node);
    const found = await fabric.call(node, INITIALISE, image);
    if (Buffer.compare(found, image) === 0) return;
    throw new StepwellError(
      'SW_POOL_FOREIGN',
      `memory node ${node + 1} of ${url} holds another pool, or another part of this one`,
    );
  });
  await Promise.all(joining);
}

function memberImage(parameters: PoolParameters, node: number): Uint8Array {
  const { poolId, nodes = 1, regionBytes, regionsMax } = parameters;
  const image = new Uint8Array(MEMBER_BYTES);
  const view = new DataView(image.buffer);
  view.setBigUint64(0, MEMBER_MAGIC, true);
  view.setFloat64(8, poolId, true);
  view.setUint32(16, nodes, true);
  view.setUint32(20, node, true);
  view.setFloat64(MEMBER_REGION_BYTES, regionBytes, true);
  view.setUint32(MEMBER_REGIONS, regionsMax / nodes, true);
  return image;
}

export function firstWord(head: Uint8Array): bigint {
  return new DataView(head.buffer, head.byteOffset).getBigUint64(0, true);
}

/** The shape of a memory, as it says itself when it was used before; undefined when it is blank. */
export function shapeIn(
  head: Uint8Array,
  url: string,
): { regionBytes: number; regions: number } | undefined {
  if (firstWord(head) === 0n) return undefined;
  const view = new DataView(head.buffer, head.byteOffset);
  if (firstWord(head) === MEMBER_MAGIC) {
    const regions = view.getUint32(MEMBER_REGIONS, true);
    return { regionBytes: view.getFloat64(MEMBER_REGION_BYTES, true), regions };
  }
  // Only the shape is asked for: how much of the pool is here is what this tells.
  const {
    regionBytes,
    regionsMax,
    nodes = 1,
  } = parseSuperblock(head, Number.POSITIVE_INFINITY, url);
  return { regionBytes, regions: regionsMax / nodes };
}
