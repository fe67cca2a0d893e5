import { hasCode, StepwellError } from '../../errors.ts';
import type { TcpFabric } from '../../fabrics/tcp/client/tcp-fabric.ts';
import { TcpRegistrar } from '../../fabrics/tcp/node/registrar.ts';
import { ERASE } from '../../fabrics/tcp/node-methods.ts';
import { control } from '../../pool/control.ts';
import { type PoolParameters, SUPERBLOCK } from '../../pool/layout.ts';
import { RemotePool } from '../../pool/remote-pool.ts';
import { parseSuperblock } from '../../pool/superblock.ts';
import { runRemote } from '../../verbs/index.ts';
import { networkThread, refuseOtherOrder } from './attach.ts';
import { otherNodes, refuseLeftParts, refuseOtherCount } from './create-on-nodes.ts';
import {
  digestOf,
  headKind,
  parseDraft,
  parseMark,
  readHead,
  readImages,
  refusalOf,
} from './node-heads.ts';

/**
 * Makes the memory nodes blank. Raises SW_POOL_BUSY while a client lives, unless forced: then it is
 * revoked. One that maps a node's file itself cannot be, and counts as living.
 *
 * The last node comes first. From then on no client opens the pool, because a part of it is missing
 * (SW_POOL_NOT_FOUND), and none uses it, because each had a connection to that node. The first node
 * comes last: after a crash in between, its superblock still tells what else belongs to the pool.
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
  // Blank nodes too: a creator that goes on late must be revoked there before it marks them.
  for (let node = images.length - 1; node >= 0; node--) {
    await fabric.call(node, ERASE, images[node]);
  }
}

/** The pool that this head belongs to, published or not; undefined when it is blank. */
function poolOf(head: Uint8Array, url: string): PoolParameters | undefined {
  const kind = headKind(head);
  if (kind === 'blank') return undefined;
  if (kind === 'draft') return parseDraft(head, url);
  return parseSuperblock(head, Number.POSITIVE_INFINITY, url);
}

/** A pool that is damaged, or of another version, may be removed by force. */
function poolByForce(head: Uint8Array, url: string): PoolParameters | undefined {
  try {
    return poolOf(head, url);
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
  const pool = poolOf(head, url);
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
 * Parts of another pool are not erased, not even by force. Where the first node does not tell its
 * pool, the marks of the others have to agree. Drafts go: their pools were never published.
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
