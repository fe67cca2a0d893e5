import type { KeyHash } from '../../records/hash.ts';
import { HEADER_BYTES, SLOT_UNITS_MAX } from '../../records/layout.ts';
import type { Operation } from '../../verbs/index.ts';
import type { CheckSink } from '../contract.ts';
import { fingerprintOf, SLOTS_AT } from './geometry.ts';
import type { ChimeRequest, LeafClient } from './leaf-client.ts';
import type { Link, Visit } from './node-io.ts';
import { distanceOf, hintOf, isLive, lengthOf, recordOf, slotHigh } from './slot.ts';

/** The most that a slot says of a record's size. */
const LONGEST = lengthOf(slotHigh(0, 0, SLOT_UNITS_MAX, 0, 0));

/** Whether a key belongs to a leaf. */
type Belongs = (key: Uint8Array, hash: KeyHash) => boolean;

/** The hint that a key of the leaf has, if its slot has one. */
type HintOf = (key: Uint8Array) => number;

/**
 * Verifies leaves: every record is intact, in the leaf of its key, in its neighbourhood, under its
 * fingerprint, size and hint, and there only once.
 */
export class LeafCheck {
  readonly #client: LeafClient;
  readonly #sink: CheckSink;
  readonly #request: ChimeRequest;
  records = 0;

  constructor(client: LeafClient, sink: CheckSink) {
    this.#client = client;
    this.#sink = sink;
    this.#request = client.newRequest();
  }

  *leaf({ image }: Visit, belongs: Belongs, hintOfKey: HintOf): Operation<void> {
    const seen = new Set<string>();
    const { span } = this.#client.geometry.shape;
    for (let slot = 0; slot < span; slot++) {
      const word = (SLOTS_AT >> 2) + 2 * slot;
      const low = image.i32[word];
      const high = image.i32[word + 1];
      if (!isLive(low, high)) continue;
      const key = yield* this.#record({ low, high }, slot, belongs, seen);
      if (key !== undefined) this.#hint({ low, high }, hintOfKey(key));
      if (++this.records % 10_000 === 0) this.#sink.progress(this.records);
    }
  }

  *#record(
    { low, high }: Link,
    slot: number,
    belongs: Belongs,
    seen: Set<string>,
  ): Operation<Uint8Array | undefined> {
    const { geometry, records } = this.#client;
    const request = this.#request;
    const { span, neighbourhood, seed } = geometry.shape;
    const record = recordOf(low, high);
    const report = (text: string) => this.#sink.problem(`record at ${record}: ${text}`);
    yield* records.adopt(request, record, lengthOf(high), seed);
    try {
      yield* records.complete(request);
    } catch (error) {
      report((error as Error).message);
      return undefined;
    }
    const { hash, outgoing, keyBytes } = request;
    const key = outgoing.u8.slice(HEADER_BYTES, HEADER_BYTES + keyBytes);
    const distance = (slot - geometry.homeOf(hash.h2) + span) % span;
    if (distance >= neighbourhood) report('outside of its neighbourhood');
    else if (distance !== distanceOf(high)) report('another distance than its slot says');
    if (fingerprintOf(hash.h1) !== high >>> 24) report('wrong fingerprint');
    if (!belongs(key, hash)) report('in a leaf of other keys');
    const name = Buffer.from(key).toString('latin1');
    if (seen.has(name)) report('its key has two slots');
    seen.add(name);
    const blocks = yield* records.foundBlocks(request, record);
    for (const block of blocks) this.#sink.reachable(block.address, block.units);
    const units = Math.min(blocks[0].units, LONGEST);
    if (units !== lengthOf(high)) report('of another size than its slot says');
    return key;
  }

  #hint({ low, high }: Link, right: number): void {
    const hint = hintOf(high);
    if (hint === 0 || hint === right) return;
    const place = `its slot says place ${hint} of the leaf, and its key ${right}`;
    this.#sink.problem(`record at ${recordOf(low, high)}: ${place}`);
  }
}
