/**
 * How a pool is created on several memory nodes. A crash may follow any step, and other clients may
 * create a pool on the same nodes at the same time.
 *
 * 1. Put a draft of the superblock on the first node, if that is blank. The first draft wins: from
 *    then on all creators create that one pool, with its identity and parameters.
 * 2. Mark every other node that is blank. The first mark of a node wins as well. A node with the
 *    mark of another pool ends the creation.
 * 3. Put a digest of the marks into the superblock, by CAS from 0. A creator whose URL names other
 *    nodes finds another digest, and gives up.
 * 4. Turn the first word from draft to superblock, by CAS: the pool now exists.
 *
 * Any creator may repeat any step, so a creator that died leaves nothing to repair. A creator that
 * was stopped and continues late does no harm either. It connected before it read the draft, and a
 * node that has restarted or was erased since does not execute its calls.
 */
import { randomBytes } from 'node:crypto';
import { StepwellError } from '../../errors.ts';
import { INITIALISE } from '../../fabrics/tcp/node-methods.ts';
import { control } from '../../pool/control.ts';
import { MAGIC, type PoolParameters, SUPERBLOCK } from '../../pool/layout.ts';
import { formatSuperblock } from '../../pool/superblock.ts';
import { type Operation, runRemote } from '../../verbs/index.ts';
import {
  type ConnectedNodes,
  DRAFT_MAGIC,
  digestOf,
  draftOf,
  formatMark,
  headKind,
  parseDraft,
  readHead,
  readImages,
  refusalOf,
} from './node-heads.ts';

/**
 * Creates the pool when the first node is blank, or finishes the creation whose draft stands there.
 * Returns the first node's head afterwards: a superblock of this creator or another's, or something
 * else.
 */
export async function createOnNodes(
  fabric: ConnectedNodes,
  parameters: PoolParameters,
  url: string,
): Promise<Uint8Array> {
  await refuseLeftParts(fabric, url);
  const superblock = formatSuperblock(parameters);
  const first = fabric.nodes === 1 ? superblock : draftOf(superblock);
  const head = await fabric.call(0, INITIALISE, first);
  if (headKind(head) !== 'draft') return head;
  await finishCreation(fabric, parseDraft(head, url), url);
  return readHead(fabric);
}

async function finishCreation(
  fabric: ConnectedNodes,
  parameters: PoolParameters,
  url: string,
): Promise<void> {
  refuseOtherCount(fabric, parameters, url);
  const others = Array.from({ length: fabric.nodes - 1 }, (_, i) => i + 1);
  const marking = others.map(async (node) => {
    const own = randomBytes(8).readBigUInt64LE(0);
    const mark = await fabric.call(node, INITIALISE, formatMark(parameters, node, own));
    const refusal = refusalOf(mark, node, parameters, url);
    if (refusal !== undefined) throw refusal;
    return mark;
  });
  const digest = digestOf(await Promise.all(marking));
  await runRemote(fabric, publishing(digest, url));
}

/** Raises SW_INVALID_URL. */
export function refuseOtherCount(
  fabric: ConnectedNodes,
  { nodes = 1 }: PoolParameters,
  url: string,
): void {
  if (nodes === fabric.nodes) return;
  const why = `names ${fabric.nodes} memory nodes; the pool is spread over ${nodes}`;
  throw new StepwellError('SW_INVALID_URL', `${url} ${why}`);
}

function* publishing(digest: bigint, url: string): Operation<void> {
  if (!(yield* control.swap(SUPERBLOCK.nodesDigest, 0n, digest))) {
    if ((yield* control.load(SUPERBLOCK.nodesDigest)) !== digest) throw otherNodes(url);
  }
  yield* control.swap(SUPERBLOCK.magic, DRAFT_MAGIC, MAGIC);
}

/** The nodes have this pool's marks in their order, but are not those with which it was created. */
export function otherNodes(url: string): StepwellError {
  const why = 'are not those with which its pool was created';
  return new StepwellError('SW_POOL_FOREIGN', `the memory nodes of ${url} ${why}`);
}

/**
 * Raises SW_POOL_NOT_FOUND when the first node is blank and others are not. A draft is written
 * before the first mark, and a pool's marks are erased before its superblock. So the first node has
 * lost its memory, and the others may hold the only copy of something.
 */
export async function refuseLeftParts(fabric: ConnectedNodes, url: string): Promise<void> {
  const [, ...others] = await readImages(fabric);
  const left = others.findIndex((image) => headKind(image) !== 'blank');
  if (left < 0 || headKind(await readHead(fabric)) !== 'blank') return;
  const what = `the first memory node of ${url} is blank and node ${left + 2} is part of a pool`;
  const remedy = 'if its first node has lost its memory, stepwell destroy --force clears the rest';
  throw new StepwellError('SW_POOL_NOT_FOUND', `${what}; ${remedy}`);
}
