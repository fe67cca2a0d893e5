import type { Operation } from '../../verbs/index.ts';
import type { LeafRequest } from '../substrates/leaf/leaf-request.ts';
import { finishPending } from './nodes/finish-pending.ts';
import { ABSORB } from './nodes/link.ts';
import { AT_KEY, type RoutedRequest } from './nodes/node-arena.ts';
import type { Visit } from './nodes/node-io.ts';
import {
  changeRemembered,
  type RememberedPath,
  rebuildLinked,
  rememberCopy,
} from './nodes/remembered-path.ts';
import { keyOf } from './nodes/siblings.ts';
import type { ChimeRequest } from './request.ts';
import { isHarmless } from './split.ts';
import type { ChimeTree } from './tree.ts';

/**
 * Makes the level above absorb a node that an earlier split of this client has cut (`linkSplit`).
 * The split leaves this to a later write, because doing both takes several times as long as other
 * splits. Until then, and if this client dies, the cut is one more level on the path. If the
 * absorption fails, the write goes on.
 */
export function* absorbCut(tree: ChimeTree, write: LeafRequest): Operation<void> {
  const key = tree.cuts.take();
  if (key === undefined) return;
  write.hasMerged = true;
  try {
    if (yield* absorbAt(tree, key)) tree.cuts.absorbed();
    else tree.cuts.failed(key);
  } catch (error) {
    if (!isHarmless(error)) throw error;
    tree.cuts.failed(key);
  }
}

/** False when the pool is too full. */
function* absorbAt(tree: ChimeTree, key: Uint8Array): Operation<boolean> {
  tree.cache.begin();
  const request = tree.idleRequests.take();
  try {
    request.setKey(key, tree.geometry.shape.seed);
    request.side = AT_KEY;
    if (yield* absorbRemembered(tree, request)) return true;
    if (!(yield* finishPending(tree, keyOf(request)))) return false;
    yield* tree.relearn(request);
    return true;
  } finally {
    tree.idleRequests.give(request);
  }
}

/** False if the client's cache lacks the path, or is out of date. */
function* absorbRemembered(tree: ChimeTree, request: ChimeRequest): Operation<boolean> {
  const path = pathAboveCut(tree, request);
  if (path === undefined) return false;
  return yield* changeRemembered(tree, path, (node) => absorbInto(tree, request, path, node));
}

function* absorbInto(
  tree: ChimeTree,
  request: ChimeRequest,
  path: RememberedPath,
  node: Visit,
): Operation<boolean> {
  const target = { key: keyOf(request), upper: path.parent.upperOf(path.child) };
  const linked = yield* rebuildLinked(tree, node, target);
  if (linked?.routes === undefined) return false;
  const older = [path.node, path.node.node(path.node.childFor(request))];
  const copy = rememberCopy(tree, path, linked.to, linked.routes);
  for (const one of older) if (one !== undefined) copy?.inherit(one);
  return true;
}

/** The cached path to the node whose child on the path is marked ABSORB. */
function pathAboveCut(tree: ChimeTree, request: RoutedRequest): RememberedPath | undefined {
  for (let parent = tree.cache.top; parent !== undefined; ) {
    const child = parent.childFor(request);
    const node = parent.node(child);
    if (node === undefined) return undefined;
    if ((node.linkHigh(node.childFor(request)) & ABSORB) !== 0) return { parent, child, node };
    parent = node;
  }
  return undefined;
}
