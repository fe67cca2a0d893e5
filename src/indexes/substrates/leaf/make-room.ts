import type { Operation } from '../../../verbs/index.ts';
import { hopsOf, isEmpty, itemHigh, setHops } from './entry.ts';
import { ITEM_AT, SUM_AT, VACANCY_AT } from './layout.ts';
import type { LeafClient } from './leaf-client.ts';
import { IMAGE_AT, type LeafRequest } from './leaf-request.ts';
import { imageOf, postEntries } from './read-leaf.ts';

export const NONE = -1;

/**
 * An empty entry of the key's neighbourhood, in the image of the locked leaf; or NONE. If the
 * neighbourhood is full, it reads up to the nearest empty entry that the vacancy shows (one more
 * READ) and brings it near by hopping (CHIME section 2.3): each time by the farthest hop that keeps
 * an item in its own neighbourhood.
 */
export function* makeRoom(client: LeafClient, request: LeafRequest): Operation<number> {
  const { geometry } = client;
  const { home } = request;
  request.moves = 0;
  const { neighbourhood, span } = geometry.shape;
  let away = emptyFrom(client, request, 0, Math.min(request.known, neighbourhood));
  if (away !== NONE) return geometry.after(home, away);
  // The image may hold the whole leaf, and so an empty entry further on.
  away = emptyFrom(client, request, neighbourhood, request.known);
  if (away === NONE && request.known < span) away = yield* readToVacancy(client, request);
  while (away >= neighbourhood) {
    const hop = request.moves < geometry.movesMax ? hopInto(client, request, away) : 0;
    if (hop === 0) return NONE;
    away -= hop;
  }
  return away === NONE ? NONE : geometry.after(home, away);
}

/** The least distance from home, in [from, to), of an empty entry; or NONE. */
export function emptyFrom(
  client: LeafClient,
  { words, home }: LeafRequest,
  from: number,
  to: number,
): number {
  for (let away = from; away < to; away++) {
    const entry = imageOf(client, client.geometry.after(home, away));
    if (isEmpty(itemHigh(words, entry))) return away;
  }
  return NONE;
}

/** Reads on up to the next entry that may be empty, by the vacancy. */
function* readToVacancy(client: LeafClient, request: LeafRequest): Operation<number> {
  const { geometry } = client;
  const { span } = geometry.shape;
  const { home, known, batch } = request;
  const first = vacancyFrom(client, request, known);
  if (first === NONE) return NONE;
  // If several entries share a bit, they must be read to know which one is empty.
  const end = geometry.perVacancyBit === 1 ? first + 1 : span;
  yield postEntries(client, request, geometry.after(home, known), end - known, batch.clear());
  request.known = end;
  return emptyFrom(client, request, known, end);
}

function vacancyFrom({ geometry }: LeafClient, { words, home }: LeafRequest, from: number): number {
  for (let away = from; away < geometry.shape.span; away++) {
    const bit = geometry.vacancyBit(geometry.after(home, away));
    const half = words.i32[(IMAGE_AT + VACANCY_AT + 4 * (bit >>> 5)) >> 2];
    if ((half & (1 << (bit & 31))) !== 0) return away;
  }
  return NONE;
}

/**
 * Moves an item into the empty entry `away` from home. Returns how much nearer the gap is; or 0.
 */
function hopInto(client: LeafClient, request: LeafRequest, away: number): number {
  const { geometry } = client;
  const { words, home } = request;
  const empty = geometry.after(home, away);
  for (let back = geometry.shape.neighbourhood - 1; back > 0; back--) {
    const other = geometry.after(home, away - back);
    const otherEntry = imageOf(client, other);
    const hops = hopsOf(words, otherEntry);
    const nearest = 31 - Math.clz32(hops & -hops);
    if (hops === 0 || nearest >= back) continue;
    const from = geometry.after(other, nearest);
    // The length must come from an intact item: a damaged one stays where it is.
    const { idLow, idHigh } = request;
    if (!client.sums.holds(words, imageOf(client, from), idLow, idHigh)) continue;
    moveItem(client, request, from, empty);
    setHops(words, otherEntry, (hops & ~(1 << nearest)) | (1 << back));
    request.moved[request.moves] = empty;
    request.homes[request.moves++] = other;
    return back - nearest;
  }
  return 0;
}

/** Moves an item with its checksum; each entry keeps its own hop bitmap. */
function moveItem(client: LeafClient, { words }: LeafRequest, from: number, to: number): void {
  const source = imageOf(client, from);
  const target = imageOf(client, to);
  const [hopsThere, hopsHere] = [hopsOf(words, target), hopsOf(words, source)];
  const { i32 } = words;
  const count = client.geometry.entryBytes >> 2;
  for (let i = 0; i < count; i++) i32[(target >> 2) + i] = i32[(source >> 2) + i];
  setHops(words, target, hopsThere);
  i32.fill(0, (source + SUM_AT) >> 2, (source + ITEM_AT + 8) >> 2);
  setHops(words, source, hopsHere);
}

/** Notes in the image that an entry is empty now. */
export function noteEmptied({ geometry }: LeafClient, { words }: LeafRequest, entry: number): void {
  const bit = geometry.vacancyBit(entry);
  words.i32[(IMAGE_AT + VACANCY_AT + 4 * (bit >>> 5)) >> 2] |= 1 << (bit & 31);
}

/**
 * Notes that an entry is used. Clears its bit if all other entries of the bit are known to be used.
 */
export function noteTaken(client: LeafClient, request: LeafRequest, entry: number): void {
  const { geometry } = client;
  const { words, home, known } = request;
  const bit = geometry.vacancyBit(entry);
  const first = bit * geometry.perVacancyBit;
  const end = Math.min(first + geometry.perVacancyBit, geometry.shape.span);
  for (let one = first; one < end; one++) {
    const isKnown = geometry.distance(home, one) < known;
    if (!isKnown || isEmpty(itemHigh(words, imageOf(client, one)))) return;
  }
  words.i32[(IMAGE_AT + VACANCY_AT + 4 * (bit >>> 5)) >> 2] &= ~(1 << (bit & 31));
}
