import type { HopscotchIndex } from '../../../src/indexes/hopscotch/hopscotch.ts';
import {
  FIRST_HEADER_AT,
  IMAGE_AT,
  type LeafRequest,
} from '../../../src/indexes/substrates/leaf/leaf-request.ts';
import { freeHigh } from '../../../src/pool/intents/lock-word.ts';
import { type Address, type Batch, type Scratch, setWord } from '../../../src/verbs/index.ts';
import type { Canary } from '../canary.ts';
import type { FailureKind } from '../checks/failure.ts';

type Plant = (index: HopscotchIndex) => void;

/** A bug in the hopscotch hash table or its leaves, planted in one client's handle. */
function canary(name: string, caughtBy: FailureKind, plant: Plant): Canary {
  return {
    name: `hopscotch: ${name}`,
    caughtBy,
    hopscotch: (index) => {
      plant(index);
      return index;
    },
  };
}

/** A bug in what each request of a client posts. */
function inRequests(change: (request: LeafRequest, index: HopscotchIndex) => void): Plant {
  return (index) => {
    const { table } = index;
    const { newRequest } = table;
    table.newRequest = () => {
      const request = newRequest.call(table);
      change(request, index);
      return request;
    };
    index.newRequest = () => table.newRequest();
  };
}

type Posts = (address: Address, bytes: number, scratch: Scratch, offset: number) => Batch;

/** Where a batch posts READs, which `instead` may post otherwise. */
function onReads(batch: Batch, instead: (post: Posts) => Posts): void {
  batch.read = instead(batch.read.bind(batch));
}

function onWrites(batch: Batch, instead: (post: Posts) => Posts): void {
  batch.write = instead(batch.write.bind(batch));
}

/** Both headers of a search are read at one end of it. */
function bracketAt(end: typeof FIRST_HEADER_AT | typeof IMAGE_AT): Plant {
  return inRequests(({ batch }) => {
    onReads(batch, (post) => {
      let isBracket = false;
      return (address, bytes, scratch, offset) => {
        const isHeader = offset === FIRST_HEADER_AT || (offset === IMAGE_AT && isBracket);
        if (offset === FIRST_HEADER_AT) isBracket = true;
        else if (offset === IMAGE_AT) isBracket = false;
        if (!isHeader) return post(address, bytes, scratch, offset);
        if (offset !== end) return batch;
        post(address, bytes, scratch, FIRST_HEADER_AT);
        return post(address, bytes, scratch, IMAGE_AT);
      };
    });
  });
}

export const HOPSCOTCH_CANARIES: readonly Canary[] = [
  canary('items are believed without their checksums', 'linearizability', ({ table }) => {
    table.sums.holds = () => true;
  }),
  canary(
    'both headers of a search are read before its entries',
    'linearizability',
    bracketAt(FIRST_HEADER_AT),
  ),
  canary(
    'both headers of a search are read after its entries',
    'linearizability',
    bracketAt(IMAGE_AT),
  ),
  canary(
    'no intent is written',
    'error',
    inRequests(({ intent }) => {
      intent.postWhole = () => {};
    }),
  ),
  canary(
    'the intent is written behind the leaf',
    'error',
    inRequests(({ intent }) => {
      const { postWhole, postWrites } = intent;
      let late: Parameters<typeof postWhole> | undefined;
      intent.postWhole = (...where) => {
        late = where;
      };
      intent.postWrites = (batch) => {
        postWrites.call(intent, batch);
        if (late !== undefined) postWhole.apply(intent, late);
      };
    }),
  ),
  canary(
    'the sibling of a split is born unlocked',
    'error',
    inRequests(({ batch }, { table }) => {
      onWrites(batch, (post) => (address, bytes, scratch, offset) => {
        if (bytes === table.geometry.leafBytes) {
          const { i32 } = scratch;
          setWord(scratch, 0, i32[2], freeHigh(i32[3]));
        }
        return post(address, bytes, scratch, offset);
      });
    }),
  ),
];
