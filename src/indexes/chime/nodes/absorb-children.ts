import { CAS_BYTES, type Operation, setWord, swapped } from '../../../verbs/index.ts';
import type { Routes } from './internal-node.ts';
import { ABSORB, FROZEN, type Link, UP } from './link.ts';
import type { NodeClient } from './node-client.ts';
import {
  type ChildVisit,
  freezeAt,
  identityOf,
  isAbsorbed,
  isInUse,
  linkAddress,
  routesOf,
  visitMany,
} from './node-io.ts';

/**
 * Absorbs what splits have left of a node's children, all of it in the same doorbells:
 *
 *   D[READ nodes] -> D[CAS FROZEN into their links] -> D[CAS identity -> UP]
 *
 * By child, what each says: undefined where there is nothing to absorb, and where the child had
 * been replaced, which `close` has to follow. Each child is done with as `close` would alone, so a
 * client may stop after any verb: the next client finds some of them absorbed.
 */
export function* absorbChildren(
  tree: NodeClient,
  links: Int32Array,
  gone: Link[],
): Operation<(Routes | undefined)[]> {
  const taken: (Routes | undefined)[] = [];
  const children: number[] = [];
  for (let child = 0; 2 * child < links.length; child++) {
    if ((links[2 * child + 1] & ABSORB) !== 0) children.push(child);
  }
  if (children.length === 0) return taken;
  const nodes = yield* visitMany(children, links);
  const counts = nodes.filter(({ node }) => isInUse(tree, node) || isAbsorbed(node));
  const routes = counts.map(({ node }) => routesOf(node));
  yield* freezeLinks(tree, counts, routes);
  const done = yield* areAbsorbed(tree, counts);
  counts.forEach(({ child, node }, i) => {
    if (!done[i]) return;
    taken[child] = routes[i];
    gone.push(node);
  });
  return taken;
}

/**
 * Freezes the links of all nodes, which no split leaves just above leaves, and in which no pair is
 * marked; `routes` then has them as they are for good, without FROZEN.
 */
function* freezeLinks(
  tree: NodeClient,
  nodes: readonly ChildVisit[],
  routes: readonly Routes[],
): Operation<void> {
  const words = new Int32Array(routes.reduce((sum, { links }) => sum + links.length, 0));
  const addresses = new Float64Array(words.length / 2);
  let at = 0;
  routes.forEach(({ links }, i) => {
    words.set(links, 2 * at);
    for (let child = 0; 2 * child < links.length; child++) {
      addresses[at++] = linkAddress(nodes[i].node.address, child);
    }
  });
  yield* freezeAt(
    tree,
    (i) => addresses[i],
    words,
    () => FROZEN,
  );
  at = 0;
  for (const { links } of routes) {
    for (let i = 0; i < links.length; i += 2, at++) {
      links[i] = words[2 * at];
      links[i + 1] = words[2 * at + 1] & ~FROZEN;
    }
  }
}

/** Which of the nodes are absorbed for good; the others were replaced before. */
function* areAbsorbed(tree: NodeClient, nodes: readonly ChildVisit[]): Operation<boolean[]> {
  const bench = tree.spareBenches.take();
  try {
    const { batch, swaps } = bench;
    swaps.ensure(CAS_BYTES * nodes.length);
    batch.clear();
    nodes.forEach(({ node }, i) => {
      if (isAbsorbed(node)) return;
      const { low, high } = identityOf(tree, node);
      setWord(swaps, CAS_BYTES * i, low, high);
      setWord(swaps, CAS_BYTES * i + 8, 0, UP);
      batch.cas(node.address, swaps, CAS_BYTES * i);
    });
    if (batch.length > 0) yield batch;
    return nodes.map(({ node }, i) => isAbsorbed(node) || swapped(swaps, CAS_BYTES * i));
  } finally {
    tree.spareBenches.give(bench);
  }
}
