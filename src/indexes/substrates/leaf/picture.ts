import type { Address, Operation, Scratch } from '../../../verbs/index.ts';
import { isEmpty, isIndirect, itemHigh, keyBytesOf, linesOf, recordOf } from './entry.ts';
import type { LeafGeometry } from './layout.ts';
import { CONTENT_AT } from './layout.ts';
import { type LeafClient, OWNED } from './leaf-client.ts';
import { IMAGE_AT, type LeafRequest } from './leaf-request.ts';
import { adoptInline, imageOf, isLeafStill, isStill, postBracket } from './read-leaf.ts';
import { lookAgain } from './search-leaf.ts';

/**
 * Reads the whole leaf of the request: its keys are of one moment; each value is of some moment.
 */
export function* readPicture(client: LeafClient, request: LeafRequest): Operation<void> {
  yield* client.begin(request);
  for (let attempt = 1; ; attempt++) {
    request.readsBounds = true;
    const { span } = client.geometry.shape;
    yield postBracket(client, request, 0, span, request.batch.clear());
    if (isPicture(client, request) && client.owns(request) === OWNED) return;
    yield* lookAgain(client, request, attempt);
  }
}

/** Whether the image, with its bounds, is of one moment. */
export function isPicture(client: LeafClient, request: LeafRequest): boolean {
  return isStill(request) && isLeafStill(request) && isWhole(client, request);
}

/**
 * Whether every item of the image is whole. Any other belongs to some key, and is no empty entry.
 */
function isWhole({ sums, geometry }: LeafClient, { words, idLow, idHigh }: LeafRequest): boolean {
  return sums.allHold(words, IMAGE_AT, geometry.entriesAt, idLow, idHigh);
}

/** Visits the inline items of a picture, each as the request's found one. */
export function eachInline(
  client: LeafClient,
  { words }: LeafRequest,
  request: LeafRequest,
  visit: (request: LeafRequest, keyBytes: number) => void,
): void {
  for (let entry = 0; entry < client.geometry.shape.span; entry++) {
    const at = imageOf(client, entry);
    const item = itemHigh(words, at);
    if (isEmpty(item) || isIndirect(item)) continue;
    const keyBytes = keyBytesOf(item);
    request.adoptKeyAt(words, at + CONTENT_AT, keyBytes, client.records.seed);
    adoptInline(request, words, at);
    visit(request, keyBytes);
  }
}

/** Visits the items of a picture that name a record; none is a claim. */
export function eachIndirect(
  client: LeafClient,
  { words }: LeafRequest,
  visit: (record: Address, units: number, isClaim: boolean) => void,
): void {
  for (let entry = 0; entry < client.geometry.shape.span; entry++) {
    const at = imageOf(client, entry);
    const item = itemHigh(words, at);
    if (!isEmpty(item) && isIndirect(item)) visit(recordOf(words, at), linesOf(words, at), false);
  }
}

/** Number of items in a picture. */
export function countItems(client: LeafClient, { words }: LeafRequest): number {
  let count = 0;
  for (let entry = 0; entry < client.geometry.shape.span; entry++) {
    if (!isEmpty(itemHigh(words, imageOf(client, entry)))) count++;
  }
  return count;
}

/** Counts the items of pictures, for `Index.shape`. */
export class ItemCounts {
  records = 0;
  inline = 0;
  indirect = 0;

  add(client: LeafClient, { words }: LeafRequest): void {
    for (let entry = 0; entry < client.geometry.shape.span; entry++) {
      const item = itemHigh(words, imageOf(client, entry));
      if (isEmpty(item)) continue;
      this.records++;
      if (isIndirect(item)) this.indirect++;
      else this.inline++;
    }
  }
}

/** An entry that only points to its record is drawn lighter than one that holds it. */
const INDIRECT_FILL = 0.6;

/** The entries of a leaf that was read whole: how many are used, and how to draw each. */
export function paintEntries(
  geometry: LeafGeometry,
  words: Scratch,
): { used: number; slots: number; cells: number[] } {
  const cells = Array.from(geometry.entriesAt, (at) => {
    const item = itemHigh(words, at);
    if (isEmpty(item)) return 0;
    return isIndirect(item) ? INDIRECT_FILL : 1;
  });
  const used = cells.filter((cell) => cell > 0).length;
  return { used, slots: cells.length, cells };
}
