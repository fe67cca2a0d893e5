import {
  type Address,
  Batch,
  CAS_BYTES,
  type Operation,
  Scratch,
  swapped,
  writeInteger,
} from '../../verbs/index.ts';
import { CycleGuard } from '../substrates/cycle-guard.ts';
import type { HashRequest } from './messages.ts';
import type { Pair } from './pair.ts';
import { BucketImage, type Posted } from './posted.ts';
import { BUCKET_BYTES, isEmpty, isValid, NEXT, nextOf, SLOTS, VALID } from './slot.ts';
import { TableLost } from './table-state.ts';

/** The chained hash table as its server uses it (section 4.1). */
export class BucketChains {
  readonly #pair: Pair;
  readonly #batch = new Batch();
  /** Used again by the next turn. */
  readonly #images: BucketImage[] = [];
  #imagesUsed = 0;

  constructor(pair: Pair) {
    this.#pair = pair;
  }

  bucketOf({ h1 }: HashRequest): Address {
    const { geometry } = this.#pair;
    return geometry.bucket((h1 >>> 0) & (geometry.buckets - 1));
  }

  /** Reads the chains of all requests, a bucket of each at a time; followers share the first's. */
  *read(posted: readonly Posted[], alongWith: (batch: Batch) => void): Operation<void> {
    const { generation } = this.#pair.geometry;
    const batch = this.#batch.clear();
    this.#imagesUsed = 0;
    alongWith(batch);
    let open = posted
      .filter(({ first }) => first === undefined)
      .map((one) => ({ one, next: this.bucketOf(one.request), guard: new CycleGuard() }));
    while (open.length > 0) {
      for (const { one, next, guard } of open) {
        guard.pass(next);
        const image = this.#imageOf(next);
        one.chain.push(image);
        batch.read(next, BUCKET_BYTES, image.words, 0);
      }
      yield batch;
      batch.clear();
      open = open
        .map(({ one, guard }) => {
          return { one, next: nextIn(one.chain[one.chain.length - 1], generation), guard };
        })
        .filter(({ next }) => next !== 0);
    }
  }

  #imageOf(address: Address): BucketImage {
    const used = this.#imagesUsed++;
    this.#images[used] ??= new BucketImage();
    this.#images[used].address = address;
    return this.#images[used];
  }

  /**
   * An empty slot for another key, in a new bucket if need be. Raises SW_POOL_FULL; undefined when
   * another server has been at work meanwhile.
   */
  *emptySlot({ chain }: Posted): Operation<Address | undefined> {
    for (const { address, words } of chain) {
      for (let slot = 0; slot < SLOTS; slot++) {
        if (isEmpty(words.i32[2 * slot + 1])) return address + 8 * slot;
      }
    }
    return yield* this.#chain(chain[chain.length - 1].address);
  }

  /**
   * Links an empty bucket behind the last one, before anything is decided: it may stay empty. One
   * that is not linked yet when its server dies belongs to a sweep.
   */
  *#chain(last: Address): Operation<Address | undefined> {
    const { allocator, catalog } = this.#pair;
    const bucket = yield* allocator.allocate(catalog, BUCKET_BYTES / 64);
    const words = new Scratch(BUCKET_BYTES + CAS_BYTES);
    writeInteger(words, NEXT, VALID);
    writeInteger(words, BUCKET_BYTES, VALID);
    writeInteger(words, BUCKET_BYTES + 8, bucket + VALID);
    yield new Batch().write(bucket, BUCKET_BYTES, words, 0).cas(last + NEXT, words, BUCKET_BYTES);
    if (swapped(words, BUCKET_BYTES)) {
      this.#pair.chained++;
      return bucket;
    }
    allocator.discard(catalog, BUCKET_BYTES / 64, bucket);
    return undefined;
  }
}

/** The address of the bucket behind this one; 0 at the end of the chain. */
function nextIn({ words }: BucketImage, generation: number): Address {
  return nextBucketIn(words.i32[NEXT >> 2], words.i32[(NEXT >> 2) + 1], generation);
}

/** What the last word of a bucket says of the next; raises TableLost for no bucket. */
export function nextBucketIn(low: number, high: number, generation: number): Address {
  if (!isValid(low)) throw new TableLost(generation);
  return nextOf(low, high);
}
