import { FIRST_LEAF, HEAD_BYTES, writeBytes } from '../../../pool/intents/intent.ts';
import { INTENT_BYTES } from '../../../pool/layout.ts';
import { NULL_ADDRESS, type Operation, setWord } from '../../../verbs/index.ts';
import { addSequence, addVacancy, carryOut, encodeItem, writtenBytes } from './change-leaf.ts';
import { decide, KEEP, OTHERWISE, PUT } from './decide.ts';
import { hopsOf, isEmpty, itemHigh, NONE, setHops } from './entry.ts';
import { ITEM_AT, SUM_AT, VACANCY_AT, WORDS_WRITTEN } from './layout.ts';
import { type LeafClient, OWNED } from './leaf-client.ts';
import { IMAGE_AT, type LeafRequest } from './leaf-request.ts';
import { unlock } from './lock-leaf.ts';
import { emptyFrom, noteEmptied, noteTaken } from './make-room.ts';
import { imageOf, keepFound, lookInNeighbourhood } from './read-leaf.ts';

/** The vacancy in the image, in 32-bit words. */
const VACANCY = (IMAGE_AT + VACANCY_AT) >> 2;

/**
 * Write combining (CHIME inherits it from SMART): the operation that holds a leaf's lock also makes
 * the changes of its client's operations that wait for the leaf.
 *
 *   D[WRITE intent's head; CAS owner; READ header; READ neighbourhood of each]
 *     -> D[intent; sequence odd; entries; vacancy; sequence even; owner]
 *
 * All of them were called before the release and return after it, so they linearize at the release,
 * in the order in which they waited. Each is decided on the image as those before it left it. The
 * intent writes each place once, with its final value, so after a death all changes happen or none.
 *
 * The first operation that needs more than its neighbourhood, such as a hop, a split or a record,
 * ends the combination and runs next. So does an insertion after a removal: if a removed key came
 * back in another entry, one reader could meet the new item, and a later one still the old.
 *
 * Returns false if the operation must go on alone. Then nothing has changed.
 */
export function* combine(client: LeafClient, request: LeafRequest): Operation<boolean> {
  const waiting = client.turns.waitingBehind(request);
  if (waiting.length === 0) return false;
  const combination = new Combination(client, request);
  if (!combination.add(request)) return false;
  const done: LeafRequest[] = [];
  for (const other of waiting) {
    if (!isRead(request, other)) break;
    try {
      if (!combination.add(other)) break;
    } catch (error) {
      // Its own callback failed, so it changes nothing.
      client.turns.takeOver(other);
      other.turnRefused = error;
      continue;
    }
    client.turns.takeOver(other);
    done.push(other);
  }
  try {
    yield* combination.carryOut();
  } catch (error) {
    // Like this one, they may have happened or not.
    for (const other of done) other.turnRefused = error;
    throw error;
  }
  for (const other of done) other.turnDone = true;
  client.combined += done.length;
  return true;
}

/** Whether the other operation's leaf is this one, and its neighbourhood was read. */
function isRead(request: LeafRequest, other: LeafRequest): boolean {
  const isSame = other.idLow === request.idLow && other.idHigh === request.idHigh;
  const { home, homesRead } = request;
  return other.joins && isSame && (other.home === home || homesRead.includes(other.home));
}

/** Changes by several operations to the image of a leaf; one of them holds its lock. */
class Combination {
  readonly #client: LeafClient;
  readonly #request: LeafRequest;
  /** Entries that change, and whether their items do or only their hop bitmaps. */
  readonly #changed = new Map<number, boolean>();
  readonly #changedMax: number;
  #hasKeys = false;
  #hasRemoved = false;

  constructor(client: LeafClient, request: LeafRequest) {
    this.#client = client;
    this.#request = request;
    const room = INTENT_BYTES - HEAD_BYTES - WORDS_WRITTEN * writeBytes(8);
    this.#changedMax = Math.floor(room / writeBytes(client.geometry.entryBytes));
  }

  /** Makes an operation's change in the image. False, and nothing changed, if it must go alone. */
  add(one: LeafRequest): boolean {
    if (one.record.block !== NULL_ADDRESS || this.#changed.size + 2 > this.#changedMax)
      return false;
    const { words } = one;
    one.words = this.#request.words;
    try {
      return this.#add(one);
    } finally {
      one.words = words;
      // Eviction and merge after each operation use the vacancy that it left.
      const [to, from] = [words.i32, this.#request.words.i32];
      for (let i = 0; i < 2; i++) to[VACANCY + i] = from[VACANCY + i];
    }
  }

  #add(one: LeafRequest): boolean {
    const client = this.#client;
    one.readsBounds = true;
    if (client.owns(one) !== OWNED) return false;
    const isThere = lookInNeighbourhood(client, one);
    if (one.candidates.count > 0) return false;
    if (isThere) keepFound(client, one);
    const empty = isThere ? NONE : emptyFrom(client, one, 0, client.geometry.shape.neighbourhood);
    const decision = decide(client, one, isThere);
    if (decision === OTHERWISE) return false;
    if (decision === KEEP) return true;
    if (decision === PUT && isThere) this.#update(one);
    else if (decision !== PUT) this.#remove(one);
    else if (empty === NONE || this.#hasRemoved) return false;
    else this.#insert(one, client.geometry.after(one.home, empty));
    return true;
  }

  #update(one: LeafRequest): void {
    const version = (one.found.version + 1) >>> 0;
    one.reseal(version);
    encodeItem(this.#client, one, one.words, one.entry, version);
    this.#changed.set(this.#client.geometry.entryOf(one.entry - IMAGE_AT), true);
  }

  #insert(one: LeafRequest, entry: number): void {
    const client = this.#client;
    const { record, words, home } = one;
    if (record.version !== record.firstVersion) one.reseal(record.firstVersion);
    encodeItem(client, one, words, imageOf(client, entry), record.version | 0);
    this.#setHop(one, home, entry, true);
    one.known = client.geometry.shape.neighbourhood;
    noteTaken(client, one, entry);
    this.#changed.set(entry, true);
  }

  #remove(one: LeafRequest): void {
    const entry = this.#client.geometry.entryOf(one.entry - IMAGE_AT);
    setWord(one.words, one.entry + ITEM_AT, 0, 0);
    this.#setHop(one, one.home, entry, false);
    noteEmptied(this.#client, one, entry);
    this.#changed.set(entry, true);
    this.#hasRemoved = true;
  }

  #setHop({ words }: LeafRequest, home: number, entry: number, isThere: boolean): void {
    const at = imageOf(this.#client, home);
    const hop = 1 << this.#client.geometry.distance(home, entry);
    setHops(words, at, isThere ? hopsOf(words, at) | hop : hopsOf(words, at) & ~hop);
    if (!this.#changed.has(home)) this.#changed.set(home, false);
    this.#hasKeys = true;
  }

  /** Writes the changes and releases the leaf. */
  *carryOut(): Operation<void> {
    const request = this.#request;
    if (this.#changed.size === 0) return yield* unlock(request);
    if (this.#hasKeys) addSequence(request, 1);
    for (const [entry, isItem] of this.#changed) this.#write(entry, isItem);
    if (this.#hasKeys) {
      addVacancy(request);
      addSequence(request, 2);
    }
    yield* carryOut(this.#client, request, NULL_ADDRESS);
  }

  #write(entry: number, isItem: boolean): void {
    const client = this.#client;
    const { intent, leaf, words } = this.#request;
    const from = imageOf(client, entry);
    const item = itemHigh(words, from);
    const bytes = isEmpty(item) ? ITEM_AT + 8 : writtenBytes(client, item);
    const size = isItem ? bytes : 8;
    const at = intent.add(FIRST_LEAF, leaf + from + SUM_AT - IMAGE_AT, size) >> 2;
    for (let i = 0; i < size >> 2; i++) intent.memory.i32[at + i] = words.i32[(from >> 2) + i];
  }
}
