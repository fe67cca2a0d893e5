import { hasCode, invariant } from '../../../errors.ts';
import { control } from '../../../pool/control.ts';
import type { Address, Operation } from '../../../verbs/index.ts';
import {
  childIn,
  childrenIn,
  isPairFrozen,
  linkIn,
  type Routes,
  separatorIn,
} from './internal-node.ts';
import { ABSORB, FROZEN, isInternal } from './link.ts';
import type { NodeClient } from './node-client.ts';
import {
  isAbsorbed,
  isInUse,
  linkAddress,
  PATH_MAX,
  replacementOf,
  rootLink,
  routesOf,
  swing,
  type Visit,
  visit,
} from './node-io.ts';
import { goneWith } from './plan-node.ts';
import { rebuildNode } from './rebuild-node.ts';
import { type KeyAt, missingSiblings, type Target } from './siblings.ts';

/** How long to wait for another client: 50 microseconds longer each time, up to the maximum. */
const WAIT_MICROSECONDS = 50;
const WAIT_MICROSECONDS_MAX = 500;

/**
 * Descends to the node above a key's leaf, by READs instead of the cache, and finishes what slow or
 * dead clients have begun on the path. It completes and links replacements, lets parents absorb
 * nodes, links siblings of the leaf that its parent lacks, and unlinks merged leaves. Each round
 * leaves one step less to do, because this client or another has done it. False if the pool is too
 * full: keys can still be read and written, by a longer path.
 *
 * A client that meets a frozen node, or loses a race, waits before it goes on, longer each time.
 * Helping a live client only slows it down, because every helper freezes the node again.
 */
export function* finishPending(tree: NodeClient, key: KeyAt): Operation<boolean> {
  const state: PendingState = { lean: false, waits: 0, frozen: 0 };
  for (let round = 1; ; round++) {
    tree.giveUpAfter(round);
    if (yield* finishOnce(tree, key, state)) return !state.lean;
  }
}

interface PendingState {
  /** Whether the pool was too full to replace a node. */
  lean: boolean;
  /** How often this client has waited for others, and the last frozen node that it waited for. */
  waits: number;
  frozen: Address;
}

/** Waits for another client to go on. Returns false, because the path must be read again. */
function* giveWay(state: PendingState): Operation<boolean> {
  state.waits++;
  yield* control.pause(Math.min(state.waits * WAIT_MICROSECONDS, WAIT_MICROSECONDS_MAX));
  return false;
}

/** One descent. True if nothing is left to do. */
function* finishOnce(tree: NodeClient, key: KeyAt, state: PendingState): Operation<boolean> {
  let above: Visit | undefined;
  let upper: Uint8Array | undefined;
  let aboveUpper: Uint8Array | undefined;
  let node = yield* visit(tree, tree.root, yield* rootLink(tree));
  for (let step = 1; ; step++) {
    invariant(step <= PATH_MAX, 'the path to a leaf does not end');
    if (!isInUse(tree, node) && !isAbsorbed(node)) {
      const to = replacementOf(node);
      // Raises SW_POOL_CORRUPT for an address where no node can be, before linking it.
      yield* visit(tree, node.owner, to);
      const gone = yield* goneWith(tree, node);
      if (yield* swing(tree, node, to, gone)) return false;
      if (!state.lean) return yield* giveWay(state);
      node = yield* visit(tree, node.owner, to);
      continue;
    }
    if (!state.lean) {
      const broken = brokenNode(node, above);
      const target = { key, upper: broken === above ? aboveUpper : upper };
      if (broken === node && state.frozen !== node.address) {
        state.frozen = node.address;
        return yield* giveWay(state);
      }
      if (broken !== undefined) return yield* rebuildIfRoom(tree, broken, target, state);
    }
    const child = childIn(node.image, key.u8, key.at, key.bytes);
    const link = linkIn(node.image, child);
    if (!isInternal(link.high)) {
      if (state.lean || !(yield* lacksSiblings(tree, routesOf(node), child, upper))) return true;
      return yield* rebuildIfRoom(tree, node, { key, upper }, state);
    }
    aboveUpper = upper;
    if (child < childrenIn(node.image) - 1) upper = separatorIn(node.image, child);
    above = node;
    node = yield* visit(tree, linkAddress(node.address, child), link);
  }
}

/** Which of an internal node and the one above it has to be rebuilt, if any. */
function brokenNode(node: Visit, above: Visit | undefined): Visit | undefined {
  if (above !== undefined && (isAbsorbed(node) || (node.high & ABSORB) !== 0)) return above;
  const { image } = node;
  if (isPairFrozen(image)) return node;
  for (let child = 0; child < childrenIn(image); child++) {
    if ((linkIn(image, child).high & FROZEN) !== 0) return node;
  }
  return undefined;
}

/** Always false, because the path must be read again. */
function* rebuildIfRoom(
  tree: NodeClient,
  node: Visit,
  target: Target,
  state: PendingState,
): Operation<boolean> {
  try {
    const rebuilt = yield* rebuildNode(tree, node, target);
    if (rebuilt === undefined) return yield* giveWay(state);
  } catch (error) {
    if (!hasCode(error, 'SW_POOL_FULL')) throw error;
    state.lean = true;
  }
  return false;
}

/** Whether a node above leaves links a merged leaf, or lacks siblings of this child. */
function* lacksSiblings(
  tree: NodeClient,
  routes: Routes,
  child: number,
  upper: Uint8Array | undefined,
): Operation<boolean> {
  const { links, pair } = routes;
  if (pair > 0 && 2 * pair < links.length) {
    const right = { low: links[2 * pair], high: links[2 * pair + 1] };
    if (yield* tree.isMerged(right)) return true;
  }
  return (yield* missingSiblings(tree, routes, child, upper)).length > 0;
}
