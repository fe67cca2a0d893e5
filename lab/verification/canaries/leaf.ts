import {
  HEADER_BYTES,
  ITEM_AT,
  SEQUENCE_AT,
  VACANCY_AT,
} from '../../../src/indexes/substrates/leaf/layout.ts';
import type { LeafClient } from '../../../src/indexes/substrates/leaf/leaf-client.ts';
import {
  FIRST_SEQUENCE_AT,
  IMAGE_AT,
  type LeafRequest,
} from '../../../src/indexes/substrates/leaf/leaf-request.ts';
import type { Intent } from '../../../src/pool/intents/intent.ts';
import { freeHigh, IDENTITY_AT } from '../../../src/pool/intents/lock-word.ts';
import type { Pool } from '../../../src/pool/pool.ts';
import {
  type Address,
  type Batch,
  highHalf,
  lowHalf,
  Scratch,
  setWord,
} from '../../../src/verbs/index.ts';
import type { FailureKind } from '../checks/failure.ts';

/** A bug in the leaves that CHIME and the hopscotch table share, planted in one client. */
export interface LeafBug {
  name: string;
  caughtBy: FailureKind;
  plant: (client: LeafClient) => void;
}

function bug(name: string, caughtBy: FailureKind, plant: LeafBug['plant']): LeafBug {
  return { name, caughtBy, plant };
}

/** A bug planted by `change` in every request that a client makes. */
export function inRequests<R extends LeafRequest, C extends { newRequest(): R }>(
  change: (request: R, client: C) => void,
): (client: C) => void {
  return (client) => {
    const { newRequest } = client;
    client.newRequest = () => {
      const request = newRequest.call(client);
      change(request, client);
      return request;
    };
  };
}

type Posts = (address: Address, bytes: number, scratch: Scratch, offset: number) => Batch;

/** Replaces how a batch posts READs. `instead` gets the original and returns the replacement. */
function onReads(batch: Batch, instead: (post: Posts) => Posts): void {
  batch.read = instead(batch.read.bind(batch));
}

function onWrites(batch: Batch, instead: (post: Posts) => Posts): void {
  batch.write = instead(batch.write.bind(batch));
}

const LAST_AT = IMAGE_AT + IDENTITY_AT;

/** A search reads both sequence words before its entries, or both after them. */
function bracketAt(end: typeof FIRST_SEQUENCE_AT | typeof LAST_AT): LeafBug['plant'] {
  return inRequests(({ batch }: LeafRequest) => {
    onReads(batch, (post) => {
      return (address, bytes, scratch, offset) => {
        const isFirst = offset === FIRST_SEQUENCE_AT;
        if (!isFirst && offset !== LAST_AT) return post(address, bytes, scratch, offset);
        if (offset !== end) return batch;
        const sequence = isFirst ? address : address + SEQUENCE_AT - IDENTITY_AT;
        post(sequence, 8, scratch, FIRST_SEQUENCE_AT);
        return post(sequence - SEQUENCE_AT + IDENTITY_AT, 16, scratch, LAST_AT);
      };
    });
  });
}

/** A repair takes over the lock before it copies the intent; the copy goes with its writes. */
export function copyLate({ repairs }: Pool): void {
  const { takeOver } = repairs;
  repairs.takeOver = (intent, word) => {
    const { postCopy, postWrites } = intent;
    let late: Parameters<Intent['postCopy']> | undefined;
    intent.postCopy = (...where) => {
      late = where;
    };
    intent.postWrites = (batch, isGuarded) => {
      if (late !== undefined) postCopy.call(intent, late[0], batch, late[2], late[3]);
      postWrites.call(intent, batch, isGuarded);
    };
    return takeOver.call(repairs, intent, word);
  };
}

/** A dead client's row is given away although a lock still names an intent in it. */
export function settleNothing({ repairs }: Pool): void {
  // biome-ignore lint/correctness/useYield: the bug is that nothing is read
  repairs.settleRow = function* () {
    return true;
  };
}

/** Bugs that any index with these leaves can have. */
export const LEAF_BUGS: readonly LeafBug[] = [
  bug('items are believed without their checksums', 'linearizability', ({ sums }) => {
    sums.holds = () => true;
  }),
  bug(
    'both sequences of a search are read before its entries',
    'linearizability',
    bracketAt(FIRST_SEQUENCE_AT),
  ),
  bug(
    'both sequences of a search are read after its entries',
    'linearizability',
    bracketAt(LAST_AT),
  ),
  bug(
    'no intent is written',
    'error',
    inRequests(({ intent }: LeafRequest) => {
      intent.postWhole = () => {};
    }),
  ),
  bug(
    'the intent is written behind the leaf',
    'error',
    inRequests(({ intent }: LeafRequest) => {
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
  bug(
    'the sibling of a split is born unlocked',
    'error',
    inRequests(({ batch }: LeafRequest, { geometry }: LeafClient) => {
      onWrites(batch, (post) => (address, bytes, scratch, offset) => {
        if (bytes === geometry.leafBytes) {
          const { i32 } = scratch;
          setWord(scratch, 0, i32[2], freeHigh(i32[3]));
        }
        return post(address, bytes, scratch, offset);
      });
    }),
  ),
  bug(
    'owner and vacancy are released by one WRITE',
    'structure',
    inRequests((request: LeafRequest) => {
      const { batch } = request;
      onWrites(batch, (post) => {
        const words = new Scratch(SEQUENCE_AT + 16);
        let hasVacancy = false;
        return (address, bytes, scratch, offset) => {
          const at = address - request.leaf;
          const isWord = bytes === 8 && at >= 0 && at < HEADER_BYTES;
          if (!isWord) return post(address, bytes, scratch, offset);
          setWord(words, at, lowHalf(scratch, offset), highHalf(scratch, offset));
          if (at === VACANCY_AT) hasVacancy = true;
          if (at === VACANCY_AT) return batch;
          if (at !== 0 || !hasVacancy) return post(address, bytes, scratch, offset);
          hasVacancy = false;
          setWord(words, IDENTITY_AT, request.idLow, request.idHigh);
          return post(address, VACANCY_AT + 8, words, 0);
        };
      });
    }),
  ),
  bug('a combined change is answered before it is written', 'linearizability', ({ turns }) => {
    const { takeOver } = turns;
    turns.takeOver = (turn) => {
      takeOver.call(turns, turn);
      turn.turnDone = true;
    };
  }),
  bug(
    'a change is combined whose neighbourhood was not read',
    'linearizability',
    inRequests(({ homesRead }: LeafRequest) => {
      homesRead.includes = () => true;
    }),
  ),
  bug('a picture takes an entry whose checksum fails for empty', 'linearizability', (client) => {
    const { sums, geometry } = client;
    const { holds } = sums;
    const pictures = new Map<Scratch, LeafRequest>();
    inRequests((request: LeafRequest) => void pictures.set(request.words, request))(client);
    sums.holds = (words, entry, idLow, idHigh) => {
      if (holds.call(sums, words, entry, idLow, idHigh)) return true;
      if (pictures.get(words)?.known !== geometry.shape.span) return false;
      setWord(words, entry + ITEM_AT, 0, 0);
      return true;
    };
  }),
];
