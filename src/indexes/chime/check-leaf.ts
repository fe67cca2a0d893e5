import type { KeyHash } from '../../records/hash.ts';
import { HEADER_BYTES } from '../../records/layout.ts';
import type { Operation } from '../../verbs/index.ts';
import type { CheckSink } from '../contract.ts';
import { fingerprintOf, SLOTS_AT } from './geometry.ts';
import type { ChimeRequest, LeafClient } from './leaf-client.ts';
import type { Link, Visit } from './node-io.ts';
import { distanceOf, isLive, lengthOf, recordOf } from './slot.ts';

/** Whether a key belongs to a leaf. */
type Belongs = (key: Uint8Array, hash: KeyHash) => boolean;

/**
 * Verifies leaves: every record is intact, in the leaf of its key, in its neighbourhood, under its
 * fingerprint, and there only once.
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

  *leaf({ image }: Visit, belongs: Belongs): Operation<void> {
    const seen = new Set<string>();
    const { span } = this.#client.geometry.shape;
    for (let slot = 0; slot < span; slot++) {
      const word = (SLOTS_AT >> 2) + 2 * slot;
      const low = image.i32[word];
      const high = image.i32[word + 1];
      if (!isLive(low, high)) continue;
      yield* this.#record({ low, high }, slot, belongs, seen);
      if (++this.records % 10_000 === 0) this.#sink.progress(this.records);
    }
  }

  *#record(
    { low, high }: Link,
    slot: number,
    belongs: Belongs,
    seen: Set<string>,
  ): Operation<void> {
    const { geometry, records } = this.#client;
    const request = this.#request;
    const { span, neighbourhood, seed } = geometry.shape;
    const record = recordOf(low, high);
    const report = (text: string) => this.#sink.problem(`record at ${record}: ${text}`);
    yield* records.adopt(request, record, lengthOf(high), seed);
    try {
      yield* records.complete(request);
    } catch (error) {
      return report((error as Error).message);
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
  }
}
