import type { Operation } from '../../../verbs/index.ts';
import { hopsOf, isEmpty, itemHigh, NONE, setHops } from './entry.ts';
import { ITEM_AT, SUM_AT, VACANCY_AT } from './layout.ts';
import type { LeafClient } from './leaf-client.ts';
import { IMAGE_AT, type LeafRequest } from './leaf-request.ts';
import { imageOf, postEntries } from './read-leaf.ts';

/** With at most this share of empty entries, a hop first reads the whole leaf: see `makeRoom`. */
const EMPTY_SHARE = 1 / 4;

/**
 * An empty entry of the key's neighbourhood, in the image of the locked leaf; or NONE. A full
 * neighbourhood costs one more READ. In a leaf that is far from full, that READ goes up to the
 * nearest empty entry that the vacancy shows, which is brought near by hopping (CHIME section 2.3):
 * each time by the farthest hop that keeps an item in its own neighbourhood. In a fuller leaf, and
 * whenever the whole leaf was read, items may move in both directions: see `HopPath`.
 */
export function* makeRoom(client: LeafClient, request: LeafRequest): Operation<number> {
  const { geometry } = client;
  const { home } = request;
  request.moves = 0;
  const { neighbourhood, span } = geometry.shape;
  let away = emptyFrom(client, request, 0, Math.min(request.known, neighbourhood));
  if (away !== NONE) return geometry.after(home, away);
  if (request.known < span && isNearlyFull(client, request)) yield* readOn(client, request, span);
  away = emptyFrom(client, request, neighbourhood, request.known);
  if (away === NONE) away = yield* readToVacancy(client, request);
  // However it was read: `splitLeaf` does not look for room again in a leaf that is all known.
  if (request.known === span) return moveAlong(client, request);
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
  const { known } = request;
  const first = vacancyFrom(client, request, known);
  if (first === NONE) return NONE;
  yield* readOn(client, request, first + 1);
  return emptyFrom(client, request, known, first + 1);
}

/** Reads the entries from the known ones on, up to a distance from the home. */
function* readOn(client: LeafClient, request: LeafRequest, end: number): Operation<void> {
  const { home, known, batch } = request;
  const first = client.geometry.after(home, known);
  yield postEntries(client, request, first, end - known, batch.clear());
  request.known = end;
}

/**
 * Whether few entries are empty, as the vacancy says. Where several share a bit, they must be read
 * to know which is.
 */
function isNearlyFull({ geometry }: LeafClient, { words }: LeafRequest): boolean {
  if (geometry.perVacancyBit > 1) return true;
  let empty = 0;
  for (let half = 0; half < 2; half++) {
    let bits = words.i32[(IMAGE_AT + VACANCY_AT + 4 * half) >> 2];
    for (; bits !== 0; bits &= bits - 1) empty++;
  }
  return empty > 0 && empty <= EMPTY_SHARE * geometry.shape.span;
}

/** Frees an entry of the full neighbourhood, in the image of a whole leaf; the entry, or NONE. */
function moveAlong(client: LeafClient, request: LeafRequest): number {
  const { geometry, hopPath, sums } = client;
  const { words, home, idLow, idHigh } = request;
  const last = hopPath.find(words, IMAGE_AT, home, geometry.movesMax);
  if (last === NONE) return NONE;
  for (let to = last; ; ) {
    const from = hopPath.before(to);
    if (from === to) break;
    // The length must come from an intact item: a damaged one stays where it is.
    if (!sums.holds(words, imageOf(client, from), idLow, idHigh)) return NONE;
    to = from;
  }
  for (let to = last; ; ) {
    const from = hopPath.before(to);
    if (from === to) return to;
    moveWithin(client, request, hopPath.homeOf(from), from, to);
    to = from;
  }
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
    const hops = hopsOf(words, imageOf(client, other));
    const nearest = 31 - Math.clz32(hops & -hops);
    if (hops === 0 || nearest >= back) continue;
    const from = geometry.after(other, nearest);
    // The length must come from an intact item: a damaged one stays where it is.
    const { idLow, idHigh } = request;
    if (!client.sums.holds(words, imageOf(client, from), idLow, idHigh)) continue;
    moveWithin(client, request, other, from, empty);
    return back - nearest;
  }
  return 0;
}

/** Moves an item within the neighbourhood of its home, and notes the move in the request. */
function moveWithin(
  client: LeafClient,
  request: LeafRequest,
  home: number,
  from: number,
  to: number,
): void {
  const { geometry } = client;
  const { words } = request;
  moveItem(client, request, from, to);
  const entry = imageOf(client, home);
  const gone = 1 << geometry.distance(home, from);
  setHops(words, entry, (hopsOf(words, entry) & ~gone) | (1 << geometry.distance(home, to)));
  request.moved[request.moves] = to;
  request.homes[request.moves++] = home;
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
