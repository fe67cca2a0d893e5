import { hasCode } from '../../../errors.ts';
import type { Batch, Operation } from '../../../verbs/index.ts';
import { bytesOfNode, checkNode, isPairFrozen, type PackedRoutes } from './internal-node.ts';
import { ABSORB, addressOfLink, FROZEN, type Link } from './link.ts';
import type { CachedNode, RoutedRequest } from './node-arena.ts';
import type { NodeClient, StepMemory } from './node-client.ts';
import { identityOf, isInUse, linkAddress, type Visit } from './node-io.ts';
import { rebuildNode } from './rebuild-node.ts';
import type { Target } from './siblings.ts';

/** A remembered node, and the one above it, of which it is this child. */
export interface RememberedPath {
  readonly parent: CachedNode;
  readonly child: number;
  readonly node: CachedNode;
}

/** The path to the node just above the leaf that the request is aimed at. */
export function rememberedPath(
  { cache }: NodeClient,
  request: RoutedRequest,
): RememberedPath | undefined {
  for (let parent = cache.top; parent !== undefined; ) {
    const child = parent.childFor(request);
    const node = parent.node(child);
    if (node !== undefined && node === request.above) return { parent, child, node };
    parent = node;
  }
  return undefined;
}

/** A remembered path whose end was read: see `postPath`. */
export interface PathRead {
  readonly path: RememberedPath;
  readonly memory: StepMemory;
  /** The links at the time of the READ; those of the path may have changed since. */
  readonly node: Link;
  readonly above: Link | undefined;
}

/**
 * Adds D[READ identity of the node above; READ node; READ its identity]. The memory must not be
 * used for anything else before `visitOf`.
 */
export function postPath(
  tree: NodeClient,
  path: RememberedPath,
  memory: StepMemory,
  batch: Batch,
): PathRead {
  const { parent } = path;
  const { images: image } = memory;
  const { low, high } = path.node;
  const address = addressOfLink(low, high);
  const bytes = bytesOfNode({ high });
  image.ensure(bytes + 16);
  const isRoot = parent === tree.cache.top;
  const above = isRoot ? undefined : { low: parent.low, high: parent.high };
  if (above !== undefined) {
    batch.read(addressOfLink(above.low, above.high), 8, image, bytes + 8);
  }
  batch.read(address, bytes, image, 0).read(address, 8, image, bytes);
  return { path, memory, node: { low, high }, above };
}

/** The node as it is now, by a round trip: see `visitOf`. */
export function* visitRemembered(
  tree: NodeClient,
  path: RememberedPath,
  memory: StepMemory,
): Operation<Visit | undefined> {
  const batch = memory.batch.clear();
  const read = postPath(tree, path, memory, batch);
  yield batch;
  return visitOf(tree, read);
}

/**
 * The node as it was read. Undefined unless it and the node above were in use, and no client was
 * replacing the node. Both blocks had the identities of their links during this operation, so
 * neither is reused before it ends.
 */
export function visitOf(
  tree: NodeClient,
  { path: { child }, memory: { images: image }, node: { low, high }, above }: PathRead,
): Visit | undefined {
  const address = addressOfLink(low, high);
  const bytes = bytesOfNode({ high });
  const owner =
    above === undefined ? tree.root : linkAddress(addressOfLink(above.low, above.high), child);
  // The cached link may have FROZEN. The CAS expects it without, so it fails while it is frozen.
  const node = { owner, low, high: high & ~FROZEN, address, image };
  const isStill = (link: Link, at: number) => {
    const identity = identityOf(tree, link);
    return image.i32[at >> 2] === identity.low && image.i32[(at >> 2) + 1] === identity.high;
  };
  if (!isInUse(tree, node) || !isStill(node, bytes)) return undefined;
  if (above !== undefined && !isStill(above, bytes + 8)) return undefined;
  checkNode(image, bytes);
  // Nothing is above the root, which may have been made by a cut.
  const isToAbsorb = above !== undefined && (high & ABSORB) !== 0;
  return isToAbsorb || isPairFrozen(image) ? undefined : node;
}

/**
 * Changes the node at the end of a path, which may have been read ahead. False if the path is out
 * of date, or the pool is full: then `finishPending` completes whatever was begun here.
 */
export function* changeRemembered(
  tree: NodeClient,
  path: RememberedPath,
  change: (node: Visit) => Operation<boolean>,
  read?: PathRead,
): Operation<boolean> {
  const memory = read?.memory ?? tree.stepMemories.take();
  try {
    const node = read ? visitOf(tree, read) : yield* visitRemembered(tree, path, memory);
    return node !== undefined && (yield* change(node));
  } catch (error) {
    if (!hasCode(error, 'SW_POOL_FULL')) throw error;
    return false;
  } finally {
    tree.stepMemories.give(memory);
  }
}

/** Caches the replacement of the path's node, which is linked; returns it if it is one node. */
export function rememberCopy(
  { cache }: NodeClient,
  { parent, child }: RememberedPath,
  to: Link,
  routes: PackedRoutes | undefined,
): CachedNode | undefined {
  parent.relink(child, to.low, to.high, cache.epoch);
  if (routes === undefined) return undefined;
  const copy = cache.remember(routes, to);
  parent.setNode(child, copy);
  return copy;
}

/** The replacement of a node, linked in its place. */
export interface Linked {
  to: Link;
  /** Undefined when it is not one node that has all children. */
  routes: PackedRoutes | undefined;
}

/** `rebuildNode`; undefined unless this client's copy is the one that is linked. */
export function* rebuildLinked(
  tree: NodeClient,
  node: Visit,
  target: Target,
): Operation<Linked | undefined> {
  const rebuilt = yield* rebuildNode(tree, node, target);
  if (rebuilt === undefined || !rebuilt.linked) return undefined;
  return rebuilt;
}
