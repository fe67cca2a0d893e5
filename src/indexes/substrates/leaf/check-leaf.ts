import { HEADER_BYTES as RECORD_HEADER_BYTES } from '../../../records/layout.ts';
import type { Operation } from '../../../verbs/index.ts';
import type { CheckSink } from '../../contract.ts';
import { checkRecord } from '../../traversal/check-records.ts';
import {
  fingerprintOf,
  hopsOf,
  isEmpty,
  isIndirect,
  itemHigh,
  keyBytesOf,
  linesOf,
  recordOf,
} from './entry.ts';
import { CONTENT_AT, VACANCY_AT } from './layout.ts';
import type { LeafClient } from './leaf-client.ts';
import { IMAGE_AT, type LeafRequest } from './leaf-request.ts';
import { imageOf } from './read-leaf.ts';

/** Whether a key, with this hash word 1, belongs to a leaf. */
type Belongs = (key: Uint8Array, h1: number) => boolean;

/**
 * Verifies pictures of leaves, whose items are whole. Each record is intact. Each key is in its
 * leaf, in its neighbourhood where its home's hop bitmap says, and only there. The vacancy shows
 * each empty entry.
 */
export class LeafCheck {
  readonly #client: LeafClient;
  readonly #sink: CheckSink;
  readonly #idle: LeafRequest[] = [];
  records = 0;

  constructor(client: LeafClient, sink: CheckSink) {
    this.#client = client;
    this.#sink = sink;
  }

  *leaf(picture: LeafRequest, belongs: Belongs): Operation<void> {
    const { span } = this.#client.geometry.shape;
    const seen = new Set<string>();
    const hops = new Int32Array(span);
    const entries: number[] = [];
    for (let entry = 0; entry < span; entry++) {
      const at = imageOf(this.#client, entry);
      if (isEmpty(itemHigh(picture.words, at))) {
        if (!this.#isVacant(picture, entry)) this.#report(picture, entry, 'empty, but no vacancy');
        continue;
      }
      if (this.#client.geometry.perVacancyBit === 1 && this.#isVacant(picture, entry)) {
        this.#report(picture, entry, 'used, but a vacancy');
      }
      entries.push(entry);
    }
    yield* this.#each(entries, (entry) => this.#check(picture, entry, belongs, seen, hops));
    for (let entry = 0; entry < span; entry++) {
      const said = hopsOf(picture.words, imageOf(this.#client, entry));
      if (said !== hops[entry]) this.#report(picture, entry, 'its hop bitmap names other entries');
    }
  }

  /** Runs `act` for each entry: one after the other, or as many at once as the sink wants. */
  *#each(entries: readonly number[], act: (entry: number) => Operation<void>): Operation<void> {
    if (this.#sink.each) return yield* this.#sink.each(entries, act);
    for (const entry of entries) yield* act(entry);
  }

  *#check(
    picture: LeafRequest,
    entry: number,
    belongs: Belongs,
    seen: Set<string>,
    hops: Int32Array,
  ): Operation<void> {
    const request = this.#idle.pop() ?? this.#client.newRequest();
    const home = yield* this.#item(picture, entry, request, belongs, seen);
    this.#idle.push(request);
    if (home >= 0) hops[home] |= 1 << this.#client.geometry.distance(home, entry);
    if (++this.records % 10_000 === 0) this.#sink.progress(this.records);
  }

  #isVacant({ words }: LeafRequest, entry: number): boolean {
    const bit = this.#client.geometry.vacancyBit(entry);
    const half = words.i32[(IMAGE_AT + VACANCY_AT + 4 * (bit >>> 5)) >> 2];
    return (half & (1 << (bit & 31))) !== 0;
  }

  #report({ leaf }: LeafRequest, entry: number, text: string): void {
    this.#sink.problem(`entry ${entry} of the leaf at ${leaf}: ${text}`);
  }

  /** The home of the key, or less than 0 if its record is damaged. */
  *#item(
    picture: LeafRequest,
    entry: number,
    request: LeafRequest,
    belongs: Belongs,
    seen: Set<string>,
  ): Operation<number> {
    const { geometry } = this.#client;
    const { words } = picture;
    const at = imageOf(this.#client, entry);
    const item = itemHigh(words, at);
    const report = (text: string) => this.#report(picture, entry, text);
    if (!isIndirect(item)) {
      request.adoptKeyAt(words, at + CONTENT_AT, keyBytesOf(item), geometry.shape.seed);
    } else if (!(yield* this.#record(picture, at, request, report))) {
      return -1;
    }
    const { hash, outgoing, keyBytes } = request;
    const key = outgoing.u8.slice(RECORD_HEADER_BYTES, RECORD_HEADER_BYTES + keyBytes);
    const home = geometry.homeOf(hash.h2);
    if (geometry.distance(home, entry) >= geometry.shape.neighbourhood) {
      report('outside of its neighbourhood');
      return -1;
    }
    if (!belongs(key, hash.h1)) report('its key belongs to another leaf');
    const name = Buffer.from(key).toString('latin1');
    if (seen.has(name)) report('its key has two entries');
    seen.add(name);
    return home;
  }

  /** Whether the record of an indirect item could be read and is intact. */
  *#record(
    { words }: LeafRequest,
    at: number,
    request: LeafRequest,
    report: (text: string) => void,
  ): Operation<boolean> {
    const { records } = this.#client;
    const record = recordOf(words, at);
    const slot = { record, units: linesOf(words, at) };
    const reachable = (address: number, units: number) => this.#sink.reachable(address, units);
    const isIntact = yield* checkRecord(records, request, slot, { problem: report, reachable });
    if (isIntact && fingerprintOf(words, at) !== request.hash.h1) report('wrong fingerprint');
    return isIntact;
  }
}
