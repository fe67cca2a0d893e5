import { FIRST_LEAF, HEAD_BYTES, writeBytes } from '../../../pool/intents/intent.ts';
import { INTENT_BYTES } from '../../../pool/layout.ts';
import { type Address, NULL_ADDRESS, type Operation, setWord } from '../../../verbs/index.ts';
import { visitRecords } from '../../traversal/visit-records.ts';
import type { UnlinkedRecord } from '../record-io.ts';
import { addSequence, addVacancy, carryOut } from './change-leaf.ts';
import {
  fingerprintOf,
  hopsOf,
  isEmpty,
  isIndirect,
  itemHigh,
  keyBytesOf,
  linesOf,
  recordOf,
  setHops,
} from './entry.ts';
import { CONTENT_AT, ITEM_AT, SUM_AT, WORDS_WRITTEN } from './layout.ts';
import type { LeafClient } from './leaf-client.ts';
import type { LeafRequest } from './leaf-request.ts';
import { letGo, lockLeaf, unlock } from './lock-leaf.ts';
import { noteEmptied } from './make-room.ts';
import { adoptInline, imageOf, prepare } from './read-leaf.ts';

/** Whether to remove the found record of the request, as in a sample. */
export type Chooses = (met: LeafRequest, keyBytes: number) => boolean;

/** The words of an entry up to its item: enough to change its hop bitmap or to empty it. */
const CHANGED_BYTES = ITEM_AT + 8 - SUM_AT;
/** Entries that one intent can change without an extra block, which a full pool may lack. */
const CHANGES_MAX = Math.floor(
  (INTENT_BYTES - HEAD_BYTES - WORDS_WRITTEN * writeBytes(8)) / writeBytes(CHANGED_BYTES),
);

/** A record whose item is removed. */
interface GoneRecord extends UnlinkedRecord {
  readonly address: Address;
  readonly lines: number;
}

/**
 * Removes those items of the leaf of the request's key that `chooses` accepts, under one lock.
 *
 *   D[WRITE intent's head; CAS owner; READ the leaf] -> (READ heads of records)
 *     -> D[intent; sequence odd; entries; vacancy; sequence even; owner]
 *
 * Crash points are those of a single removal: the intent holds all removals or none. One intent has
 * room for about a third of a leaf; returns whether items are left for another call. Keeps items
 * whose records have several blocks, because it would have to read those under the lock.
 */
export function* removeItems(
  client: LeafClient,
  request: LeafRequest,
  met: LeafRequest,
  chooses: Chooses,
): Operation<boolean> {
  prepare(client, request);
  try {
    yield* client.begin(request);
    for (let attempt = 1; !(yield* lockLeaf(client, request, attempt, [])); ) attempt++;
    const removal = new Removal(client, request);
    removal.chooseInline(met, chooses);
    yield* removal.chooseIndirect(met, chooses);
    if (removal.count === 0) {
      yield* unlock(request);
      return false;
    }
    removal.write();
    yield* carryOut(client, request, NULL_ADDRESS);
    for (const one of removal.records) client.records.retireFound(one, one.address, one.lines);
    return removal.hasLeft;
  } finally {
    yield* letGo(client, request);
  }
}

/** The items to remove from a leaf that is locked and was read whole. */
class Removal {
  readonly #client: LeafClient;
  readonly #request: LeafRequest;
  /** Entries and homes of the items with records, in the order of the candidates. */
  readonly #indirect: { entry: number; home: number }[] = [];
  /** Entries that change: those of removed items, and their homes. */
  readonly #changed = new Set<number>();
  readonly records: GoneRecord[] = [];
  count = 0;
  /** Whether some items were not considered because the intent had no room. */
  hasLeft = false;

  constructor(client: LeafClient, request: LeafRequest) {
    this.#client = client;
    this.#request = request;
  }

  /** Chooses among the inline items, and notes the records of the others. */
  chooseInline(met: LeafRequest, chooses: Chooses): void {
    const { geometry, records, sums } = this.#client;
    const { words, idLow, idHigh } = this.#request;
    const { neighbourhood, span } = geometry.shape;
    met.candidates.count = 0;
    for (let home = 0; home < span; home++) {
      // An item's home is the entry whose hop bitmap names it, so no key has to be hashed.
      for (let hops = hopsOf(words, imageOf(this.#client, home)); hops !== 0; hops &= hops - 1) {
        const away = 31 - Math.clz32(hops & -hops);
        const entry = geometry.after(home, away);
        const at = imageOf(this.#client, entry);
        const item = itemHigh(words, at);
        const isWhole = !isEmpty(item) && sums.holds(words, at, idLow, idHigh);
        if (!isWhole || away >= neighbourhood) continue;
        if (isIndirect(item)) {
          this.#indirect.push({ entry, home });
          met.noteRecord(recordOf(words, at), linesOf(words, at));
          continue;
        }
        if (!this.#hasRoom()) return;
        met.adoptKeyAt(words, at + CONTENT_AT, keyBytesOf(item), records.seed);
        adoptInline(met, words, at);
        if (chooses(met, met.keyBytes)) this.#take(entry, home);
      }
    }
  }

  /** Chooses among the items with records, whose heads are read in one doorbell. */
  *chooseIndirect(met: LeafRequest, chooses: Chooses): Operation<void> {
    let i = 0;
    const accepts = (_: LeafRequest, candidate: number) => {
      i = candidate;
      return this.#hasRoom() && !met.found.isChained && this.#isItsRecord(met, candidate);
    };
    const visit = (_: LeafRequest, keyBytes: number) => {
      if (!chooses(met, keyBytes)) return;
      const { entry, home } = this.#indirect[i];
      this.#take(entry, home);
      const { valueBytes } = met.found;
      const [address, lines] = [met.candidates.records[i], met.candidates.units[i]];
      this.records.push({ address, lines, keyBytes, found: { valueBytes } });
    };
    yield* visitRecords(this.#client.records, met, accepts, visit, true);
  }

  /** Whether the record has its item's fingerprint; otherwise it is damaged. */
  #isItsRecord({ hash }: LeafRequest, i: number): boolean {
    const { words } = this.#request;
    return fingerprintOf(words, imageOf(this.#client, this.#indirect[i].entry)) === hash.h1;
  }

  /** Whether the intent has room for another item's entry and its home. */
  #hasRoom(): boolean {
    const hasRoom = this.#changed.size + 2 <= CHANGES_MAX;
    if (!hasRoom) this.hasLeft = true;
    return hasRoom;
  }

  #take(entry: number, home: number): void {
    const { words } = this.#request;
    const { geometry } = this.#client;
    const homeAt = imageOf(this.#client, home);
    setHops(words, homeAt, hopsOf(words, homeAt) & ~(1 << geometry.distance(home, entry)));
    setWord(words, imageOf(this.#client, entry) + ITEM_AT, 0, 0);
    noteEmptied(this.#client, this.#request, entry);
    this.#changed.add(home).add(entry);
    this.count++;
  }

  /** Adds all WRITEs except the release. */
  write(): void {
    const { intent, leaf, words } = this.#request;
    addSequence(this.#request, 1);
    for (const entry of this.#changed) {
      const from = imageOf(this.#client, entry) + SUM_AT;
      const there = leaf + this.#client.geometry.entryAt(entry) + SUM_AT;
      const at = intent.add(FIRST_LEAF, there, CHANGED_BYTES);
      const { i32 } = intent.memory;
      for (let i = 0; i < CHANGED_BYTES >> 2; i++) i32[(at >> 2) + i] = words.i32[(from >> 2) + i];
    }
    addVacancy(this.#request);
    addSequence(this.#request, 2);
  }
}
