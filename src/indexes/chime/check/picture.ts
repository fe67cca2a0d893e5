import { Batch, highHalf, lowHalf, type Operation, Scratch } from '../../../verbs/index.ts';
import {
  type IndexPicture,
  type PictureLayer,
  type PicturePart,
  pictureOf,
  spread,
} from '../../picture.ts';
import { IDENTITY_AT, identityHigh, identityLow } from '../../substrates/leaf/layout.ts';
import { paintEntries } from '../../substrates/leaf/picture.ts';
import { addressOfLink, FROZEN, isInternal, type Link, tagOfLink } from '../nodes/link.ts';
import { isAbsorbed, isInUse, replacementOf, rootLink, routesOf, visit } from '../nodes/node-io.ts';
import type { ChimeTree } from '../tree.ts';

/** A tree with a fanout of 2 is not deeper. */
const HEIGHT_MAX = 64;
/** Links from a node that was replaced to what is in its place now. */
const REPLACEMENTS_MAX = 16;
const LOWEST = new Uint8Array(0);

interface Below {
  link: Link;
  lower: Uint8Array;
  /** Which of the nodes that are shown above leads to it. */
  above?: number;
}

/** Some nodes of each level, and some leaves, as they are. */
export function* paint(tree: ChimeTree, partsMax: number): Operation<IndexPicture> {
  const layers: PictureLayer[] = [];
  let level: Below[] = [{ link: yield* rootLink(tree), lower: LOWEST }];
  /** How many there are of the level for each one that is known. */
  let scale = 1;
  for (let height = 0; height < HEIGHT_MAX && isInternal(level[0].link.high); height++) {
    const chosen = spread(level, partsMax);
    const below: Below[] = [];
    const shown: PicturePart[] = [];
    for (const node of chosen) {
      const children = yield* childrenOf(tree, node);
      if (children.length === 0) continue;
      below.push(...children.map((child) => ({ ...child, above: shown.length })));
      shown.push(nodePart(tree, node, children.length));
    }
    const total = Math.round(scale * level.length);
    const parts = height === 0 ? 'root' : `internal nodes, level ${height + 1}`;
    layers.push({ parts, cell: 'child', total, isExact: scale === 1, shown });
    if (below.length === 0) break;
    scale *= level.length / Math.max(1, shown.length);
    level = below;
  }
  const shown: PicturePart[] = [];
  for (const leaf of spread(level, partsMax)) {
    const part = yield* leafPart(tree, leaf);
    if (part !== undefined) shown.push(part);
  }
  const total = Math.round(scale * level.length);
  layers.push({ parts: 'leaves', cell: 'entry', total, isExact: scale === 1, shown });
  return pictureOf(layers);
}

/** The children of a node, or of what has replaced it; none where its parent has absorbed it. */
function* childrenOf(tree: ChimeTree, { link, lower }: Below): Operation<Below[]> {
  let node = yield* visit(tree, tree.root, link);
  for (let i = 0; !isInUse(tree, node); i++) {
    if (isAbsorbed(node) || i === REPLACEMENTS_MAX) return [];
    node = yield* visit(tree, tree.root, replacementOf(node));
  }
  const { links, separators } = routesOf(node);
  return [lower, ...separators].map((from, child) => ({
    link: { low: links[2 * child], high: links[2 * child + 1] & ~FROZEN },
    lower: from.slice(),
  }));
}

function nodePart(tree: ChimeTree, { lower, above }: Below, children: number): PicturePart {
  const { fanout } = tree.geometry.shape;
  const place = above === undefined ? {} : { above };
  return {
    name: keyName(lower),
    ...place,
    used: children,
    slots: Math.max(children, fanout),
    cells: [],
  };
}

/** Undefined for a leaf that was merged, or whose block is something else by now. */
function* leafPart(
  tree: ChimeTree,
  { link, lower, above = 0 }: Below,
): Operation<PicturePart | undefined> {
  const { geometry } = tree;
  if (isInternal(link.high)) return undefined;
  const address = addressOfLink(link.low, link.high);
  const words = new Scratch(geometry.leafBytes);
  yield new Batch().read(address, geometry.leafBytes, words, 0);
  const tag = tagOfLink(link.high);
  const { seed } = geometry.shape;
  if (lowHalf(words, IDENTITY_AT) !== identityLow(address, tag, seed)) return undefined;
  if (highHalf(words, IDENTITY_AT) !== identityHigh(address, tag, seed)) return undefined;
  return { name: keyName(lower), above, ...paintEntries(geometry, words) };
}

const NAME_BYTES = 24;

/** The first bytes of a key, for people: text where it is printable, else hexadecimal. */
function keyName(key: Uint8Array): string {
  const first = key.subarray(0, NAME_BYTES);
  const isText = first.every((byte) => byte >= 0x20 && byte < 0x7f);
  const shown = isText ? Buffer.from(first).toString('latin1') : Buffer.from(first).toString('hex');
  return key.length > NAME_BYTES ? `${shown}…` : shown;
}
