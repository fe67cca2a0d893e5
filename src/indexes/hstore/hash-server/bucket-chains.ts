import {
  type Address,
  Batch,
  CAS_BYTES,
  type Operation,
  Scratch,
  swapped,
  writeInteger,
} from '../../../verbs/index.ts';
import { CycleGuard } from '../../substrates/cycle-guard.ts';
import { allocateUnlessFull, type PairAccess } from '../protocol/pair-access.ts';
import { BUCKET_BYTES, emptySlotIn, NEXT, VALID } from '../protocol/slot.ts';
import { nextBucketIn } from '../protocol/table-reader.ts';
import { BucketImage, type PostedRequest } from './posted-request.ts';

/** The chained hash table as its server uses it (section 4.1). */
export class BucketChains {
  readonly #pair: PairAccess;
  readonly #batch = new Batch();
  /** Used again by the next turn. */
  readonly #images: BucketImage[] = [];

  constructor(pair: PairAccess) {
    this.#pair = pair;
  }

  /** Reads the chains of all requests, a bucket of each at a time; followers share the first's. */
  *read(posted: readonly PostedRequest[], postAlong: (batch: Batch) => void): Operation<void> {
    const { geometry } = this.#pair;
    const { generation } = geometry;
    const batch = this.#batch.clear();
    let used = 0;
    postAlong(batch);
    let open = posted
      .filter(({ first }) => first === undefined)
      .map(({ request, chain }) => {
        return { chain, next: geometry.bucketOf(request), guard: new CycleGuard() };
      });
    while (open.length > 0) {
      for (const { chain, next, guard } of open) {
        guard.pass(next);
        this.#images[used] ??= new BucketImage();
        const image = this.#images[used++];
        image.address = next;
        chain.push(image);
        batch.read(next, BUCKET_BYTES, image.words, 0);
      }
      yield batch;
      batch.clear();
      for (const one of open) {
        one.next = nextBucketIn(one.chain[one.chain.length - 1].words, 0, generation);
      }
      open = open.filter(({ next }) => next !== 0);
    }
  }

  /**
   * An empty slot for another key, in a new bucket if need be. 'full' when there is no memory for
   * one; 'overtaken' when another server has been at work meanwhile.
   */
  *emptySlot({ chain }: PostedRequest): Operation<Address | 'full' | 'overtaken'> {
    for (const { address, words } of chain) {
      const slot = emptySlotIn(words, 0);
      if (slot >= 0) return address + 8 * slot;
    }
    return yield* this.#chain(chain[chain.length - 1].address);
  }

  /**
   * Links an empty bucket behind the last one, before anything is decided: it may stay empty. A
   * sweep frees a bucket whose server dies before it is linked.
   */
  *#chain(last: Address): Operation<Address | 'full' | 'overtaken'> {
    const { allocator, catalog } = this.#pair;
    const bucket = yield* allocateUnlessFull(this.#pair, 1);
    if (bucket === undefined) return 'full';
    const words = new Scratch(BUCKET_BYTES + CAS_BYTES);
    writeInteger(words, NEXT, VALID);
    writeInteger(words, BUCKET_BYTES, VALID);
    writeInteger(words, BUCKET_BYTES + 8, bucket + VALID);
    yield new Batch().write(bucket, BUCKET_BYTES, words, 0).cas(last + NEXT, words, BUCKET_BYTES);
    if (swapped(words, BUCKET_BYTES)) {
      this.#pair.chained++;
      return bucket;
    }
    allocator.discard(catalog, 1, bucket);
    return 'overtaken';
  }
}
