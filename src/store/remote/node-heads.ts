/**
 * The head of a memory node says what the node is.
 *
 * ```
 * blank         the node is part of no pool
 * draft         first node: a superblock whose pool is still being created
 * superblock    first node of a pool
 * mark          another node: pool, number of nodes, place, and a number of its own
 * ```
 */
import { createHash } from 'node:crypto';
import { StepwellError } from '../../errors.ts';
import type { Welcome } from '../../fabrics/tcp/handshake.ts';
import { HEAD_IMAGE_BYTES } from '../../fabrics/tcp/method-arguments.ts';
import { control } from '../../pool/control.ts';
import { MAGIC, type PoolParameters } from '../../pool/layout.ts';
import { parseSuperblock, SUPERBLOCK_BYTES } from '../../pool/superblock.ts';
import {
  addressOf,
  Batch,
  type Operation,
  type RemoteFabric,
  runRemote,
  Scratch,
} from '../../verbs/index.ts';

/** "STEPNODE" in little-endian bytes. */
const MARK_MAGIC = 0x45_44_4f_4e_50_45_54_53n;
/** "STEPDRFT" in little-endian bytes. */
export const DRAFT_MAGIC = 0x54_46_52_44_50_45_54_53n;

/** Offsets in a mark. */
const MARK = { poolId: 8, nodes: 16, node: 20, regionBytes: 24, regions: 32, own: 40 } as const;

export type HeadKind = 'blank' | 'draft' | 'superblock' | 'mark' | 'foreign';

export function headKind(head: Uint8Array): HeadKind {
  const first = new DataView(head.buffer, head.byteOffset).getBigUint64(0, true);
  if (first === 0n) return 'blank';
  if (first === DRAFT_MAGIC) return 'draft';
  if (first === MAGIC) return 'superblock';
  return first === MARK_MAGIC ? 'mark' : 'foreign';
}

/** The mark of a pool's node. `own` is a number that no other mark has. */
export function formatMark(parameters: PoolParameters, node: number, own: bigint): Uint8Array {
  const { poolId, nodes = 1, regionBytes, regionsMax } = parameters;
  const image = new Uint8Array(HEAD_IMAGE_BYTES);
  const view = new DataView(image.buffer);
  view.setBigUint64(0, MARK_MAGIC, true);
  view.setFloat64(MARK.poolId, poolId, true);
  view.setUint32(MARK.nodes, nodes, true);
  view.setUint32(MARK.node, node, true);
  view.setFloat64(MARK.regionBytes, regionBytes, true);
  view.setUint32(MARK.regions, regionsMax / nodes, true);
  view.setBigUint64(MARK.own, own, true);
  return image;
}

/** The numbers in a mark; nodes are counted from 0 on. */
export function parseMark(image: Uint8Array) {
  const view = new DataView(image.buffer, image.byteOffset);
  return {
    poolId: view.getFloat64(MARK.poolId, true),
    nodes: view.getUint32(MARK.nodes, true),
    node: view.getUint32(MARK.node, true),
    regionBytes: view.getFloat64(MARK.regionBytes, true),
    regions: view.getUint32(MARK.regions, true),
  };
}

/** Identifies the nodes of a pool: a hash of all marks, never 0. */
export function digestOf(marks: readonly Uint8Array[]): bigint {
  const hash = createHash('sha256');
  for (const mark of marks) hash.update(mark);
  return hash.digest().readBigUInt64LE(0) | 1n;
}

/** The form of a superblock until all other nodes have their marks. */
export function draftOf(superblock: Uint8Array): Uint8Array {
  return withMagic(superblock, DRAFT_MAGIC);
}

function withMagic(head: Uint8Array, magic: bigint): Uint8Array {
  const image = Uint8Array.from(head);
  new DataView(image.buffer).setBigUint64(0, magic, true);
  return image;
}

/** The size of a memory that was used before, as its head says; undefined if it is blank. */
export function shapeIn(
  head: Uint8Array,
  url: string,
): { regionBytes: number; regions: number } | undefined {
  if (headKind(head) === 'mark') return parseMark(head);
  const pool = poolIn(head, url);
  if (pool === undefined) return undefined;
  const { regionBytes, regionsMax, regionsRaised = regionsMax, nodes = 1 } = pool;
  return { regionBytes, regions: regionsRaised / nodes };
}

/**
 * The pool that a first node's head belongs to, published or not; undefined when it is blank.
 * Unchecked against the memory's size. Raises what `parseSuperblock` raises.
 */
export function poolIn(head: Uint8Array, url: string): PoolParameters | undefined {
  const kind = headKind(head);
  if (kind === 'blank') return undefined;
  if (kind === 'draft') return parseDraft(head, url);
  return parseSuperblock(head, Number.POSITIVE_INFINITY, url);
}

/** The parameters that a draft's pool will have. Raises what `parseSuperblock` raises. */
export function parseDraft(draft: Uint8Array, url: string): PoolParameters {
  return parseSuperblock(withMagic(draft, MAGIC), Number.POSITIVE_INFINITY, url);
}

/** Memory nodes to which a client is connected, for verbs and calls. */
export interface ConnectedNodes extends RemoteFabric {
  readonly nodes: number;
  /** The nodes' answers to the connection. */
  readonly welcomes: readonly Welcome[];
  call(node: number, method: number, request: Uint8Array): Promise<Uint8Array>;
}

/** The first bytes of the first node: a superblock, or what is in its place. */
export async function readHead(fabric: ConnectedNodes): Promise<Uint8Array> {
  const head = await runRemote(fabric, control.readBytes(0, SUPERBLOCK_BYTES));
  return head.slice();
}

/** The first bytes of every node. */
export function readImages(fabric: ConnectedNodes): Promise<Uint8Array[]> {
  return runRemote(fabric, images(fabric.nodes));
}

function* images(nodes: number): Operation<Uint8Array[]> {
  const scratch = new Scratch(nodes * HEAD_IMAGE_BYTES);
  const batch = new Batch();
  const offsets = Array.from({ length: nodes }, (_, node) => node * HEAD_IMAGE_BYTES);
  offsets.forEach((offset, node) => {
    batch.read(addressOf(node, 0), HEAD_IMAGE_BYTES, scratch, offset);
  });
  yield batch;
  return offsets.map((offset) => scratch.u8.slice(offset, offset + HEAD_IMAGE_BYTES));
}

/**
 * The error if node `node` (from 0), which begins with `image`, is not that node of this pool.
 * SW_POOL_NOT_FOUND if it is blank: without its part there is no pool.
 */
export function refusalOf(
  image: Uint8Array,
  node: number,
  pool: { poolId: number; nodes?: number } | undefined,
  url: string,
): StepwellError | undefined {
  const which = `memory node ${node + 1} of ${url}`;
  const kind = headKind(image);
  if (kind === 'blank') {
    const why = 'is blank: it has lost its part of the pool, or is another node';
    const remedy = 'if it is lost, stepwell destroy clears what is left of the pool';
    return new StepwellError('SW_POOL_NOT_FOUND', `${which} ${why}; ${remedy}`);
  }
  const foreign = (why: string) => new StepwellError('SW_POOL_FOREIGN', `${which} ${why}`);
  if (kind === 'foreign') return foreign('holds what is no part of a pool');
  if (kind !== 'mark') return foreign('is the first node of another pool');
  const mark = parseMark(image);
  if (mark.poolId !== pool?.poolId || mark.nodes !== pool.nodes) {
    return foreign('is part of another pool');
  }
  return mark.node === node
    ? undefined
    : foreign(`is number ${mark.node + 1} of this pool: keep their order`);
}
