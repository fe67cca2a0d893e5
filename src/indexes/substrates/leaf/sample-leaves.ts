import { HEADER_BYTES as RECORD_HEADER_BYTES } from '../../../records/layout.ts';
import type { Operation } from '../../../verbs/index.ts';
import { visitSample } from '../../traversal/sample.ts';
import { isEmpty, isIndirect, itemHigh, keyBytesOf, linesOf, recordOf } from './entry.ts';
import { CONTENT_AT, HEADER_BYTES } from './layout.ts';
import { type LeafClient, OWNED } from './leaf-client.ts';
import { IMAGE_AT, type LeafRequest } from './leaf-request.ts';
import {
  adoptInline,
  imageOf,
  isLeafStill,
  isStill,
  postBracket,
  postEntries,
  prepare,
} from './read-leaf.ts';
import { lookAgain } from './search-leaf.ts';

/**
 * A place is a few entries in each of several leaves. Neighbouring keys of an ordered leaf are
 * often equally popular, so a sample of one leaf would compare popular keys with popular ones.
 */
const LEAVES = 8;
const ENTRIES = 3;
/** A neighbourhood with at most this many empty entries counts as full. */
const EMPTY_MAX = 1;
/** Leaves to follow to reach a key's: a full pool may lack room for links to them. */
const ATTEMPTS_MAX = 64;
/** Leaves that are read in one doorbell. */
const LEAVES_MAX = 32;

/**
 * `Index.sample`: D[READ header; READ entries] of each leaf (1 round trip), then the heads of the
 * records that they name, if they name any (1 more). It reads no sequence: an item whose checksum
 * holds was there, and an eviction compares its version under the lock.
 */
export function* sampleLeaves<R extends LeafRequest>(
  client: LeafClient<LeafClient['geometry']['shape'], R>,
  requests: R[],
  request: LeafRequest,
  places: readonly number[],
  enough: number,
  visit: (request: LeafRequest, keyBytes: number) => void,
): Operation<void> {
  const leaves = LEAVES * places.length;
  const entries = Math.min(ENTRIES, client.geometry.shape.span);
  let met = 0;
  request.candidates.count = 0;
  for (let i = 0; i < leaves && met + request.candidates.count < enough; i += LEAVES_MAX) {
    const count = Math.min(LEAVES_MAX, leaves - i);
    yield* readEntries(client, requests, places, i, count);
    for (let leaf = 0; leaf < count; leaf++) {
      met += visitInline(client, requests[leaf], entries, request, visit);
    }
  }
  const part = { place: places[0], enough: Math.max(1, enough - met) };
  yield* visitSample(client.records, request, part, visit);
}

/**
 * `Index.sample` beside a record: the entries in which its key may be, unless several are empty.
 * The client has just written it there, or found no room; then none was empty, but another client
 * may have emptied one since. Reads the whole leaf if `enough` is infinite.
 */
export function* sampleNeighbourhood<R extends LeafRequest>(
  client: LeafClient<LeafClient['geometry']['shape'], R>,
  requests: R[],
  own: R,
  request: R,
  enough: number,
  visit: (request: LeafRequest, keyBytes: number) => void,
): Operation<void> {
  const { neighbourhood, seed, span } = client.geometry.shape;
  const whole = enough === Number.POSITIVE_INFINITY;
  const entries = whole ? span : neighbourhood;
  if (requests.length === 0) requests.push(client.newRequest());
  const [read] = requests;
  read.adoptKeyAt(own.outgoing, RECORD_HEADER_BYTES, own.keyBytes, seed);
  prepare(client, read);
  yield* client.begin(read);
  for (let attempt = 1; ; attempt++) {
    read.readsBounds = true;
    yield postBracket(client, read, read.home, entries, read.batch.clear());
    if (isStill(read) && isLeafStill(read) && client.owns(read) === OWNED) break;
    if (attempt === ATTEMPTS_MAX) return;
    yield* lookAgain(client, read, attempt);
  }
  if (!whole && emptyIn(client, read, entries) > EMPTY_MAX) return;
  request.candidates.count = 0;
  visitInline(client, read, entries, request, visit);
  const part = { place: 0, enough: request.candidates.count };
  yield* visitSample(client.records, request, part, visit);
}

function emptyIn(client: LeafClient, { words, home }: LeafRequest, entries: number): number {
  let empty = 0;
  for (let i = 0; i < entries; i++) {
    const at = imageOf(client, client.geometry.after(home, i));
    if (isEmpty(itemHigh(words, at))) empty++;
  }
  return empty;
}

/**
 * The position in [0, 1) of a leaf of the sample. The leaves of one place are spread evenly over
 * the part of the index that begins there, wrapping around.
 */
function placeOf(leaf: number, places: readonly number[]): number {
  const place = places[Math.floor(leaf / LEAVES)];
  return (place + (leaf % LEAVES) / LEAVES / places.length) % 1;
}

/**
 * Reads a few entries of each of `count` leaves from `first` on. Relearns a leaf that has changed.
 */
function* readEntries<R extends LeafRequest>(
  client: LeafClient<LeafClient['geometry']['shape'], R>,
  requests: R[],
  places: readonly number[],
  first: number,
  count: number,
): Operation<void> {
  const { span } = client.geometry.shape;
  while (requests.length < count) requests.push(client.newRequest());
  const { batch } = requests[0];
  for (let i = 0; i < count; i++) {
    const rest = yield* client.aimAtPlace(requests[i], placeOf(first + i, places));
    // Several places may fall on the same entries of one leaf, so they are spread.
    requests[i].home = Math.floor(rest * span + i * ENTRIES) % span;
  }
  batch.clear();
  for (let i = 0; i < count; i++) {
    const { leaf, words, home } = requests[i];
    batch.read(leaf, HEADER_BYTES, words, IMAGE_AT);
    postEntries(client, requests[i], home, Math.min(ENTRIES, span), batch);
  }
  yield batch;
  for (let i = 0; i < count; i++) {
    if (!client.isAsAimed(requests[i])) return yield* client.relearn(requests[i]);
  }
}

/** Visits the inline items that were read and notes the others; returns how many it visited. */
function visitInline(
  client: LeafClient,
  read: LeafRequest,
  entries: number,
  request: LeafRequest,
  visit: (request: LeafRequest, keyBytes: number) => void,
): number {
  const { geometry, sums } = client;
  const { words, home, idLow, idHigh } = read;
  const { seed } = geometry.shape;
  let visited = 0;
  for (let i = 0; i < entries; i++) {
    const at = imageOf(client, geometry.after(home, i));
    const item = itemHigh(words, at);
    if (isEmpty(item) || !sums.holds(words, at, idLow, idHigh)) continue;
    if (isIndirect(item)) {
      request.noteRecord(recordOf(words, at), linesOf(words, at));
      continue;
    }
    const keyBytes = keyBytesOf(item);
    request.adoptKeyAt(words, at + CONTENT_AT, keyBytes, seed);
    adoptInline(request, words, at);
    visit(request, keyBytes);
    visited++;
  }
  return visited;
}
