import { StepwellError } from '../../../src/errors.ts';
import type { Index, IndexKind, IndexParameters } from '../../../src/indexes/contract.ts';
import type { Prng } from '../../../src/random/prng.ts';
import type { KeyHash } from '../../../src/records/hash.ts';
import type { Address, Operation } from '../../../src/verbs/index.ts';

/** How a run handles an index with servers. */
export interface ServerSubject {
  /** Acts as a server for a while, with random roles. */
  serve(index: Index, prng: Prng): Operation<void>;
  /** Where the table is now, according to the pool's memory. */
  table(index: Index, peek: (address: Address) => bigint): { address: Address; bytes: number }[];
  /** Restores a lost table whose loss no client has noticed yet. */
  restore(index: Index): Operation<void>;
}

/** An index as the verification runs it: so small that few keys fill it. */
export interface Subject {
  readonly kind: IndexKind;
  /** Parameters for random programs; a crowded table has to grow. */
  parameters(prng: Prng, crowded: boolean): IndexParameters;
  /**
   * Parameters for a torture round: tables so small that some hundred keys resize them over and
   * over. Default: those of any store.
   */
  torture?(prng: Prng): Readonly<Record<string, number>>;
  /** The smallest table there is, for exhaustive search. */
  readonly smallest: IndexParameters;
  /** Memory nodes of the pool; 1 when left out. */
  nodes?(parameters: IndexParameters): number;
  /** Equal for keys that can only be in the same slots. */
  place(hash: KeyHash, parameters: IndexParameters): string;
  /** Equal for keys that the index can distinguish only by their records. */
  fingerprint(hash: KeyHash): number;
  /** How many records fill the slots of keys that share slots. */
  placesOfKey(parameters: IndexParameters): number;
  /** Whether a walk meets each key exactly once, and not only at least once. */
  readonly walksOnce: boolean;
  /** Whether all records that a step of a scan returns existed at one moment. */
  readonly scansSnapshots?: (parameters: IndexParameters) => boolean;
  /** Whether the index chooses versions itself, and never uses one twice for a key. */
  readonly ownVersions?: boolean;
  /**
   * Whether a client reads blocks of this size at cached addresses before it knows that they still
   * hold. Reading one after it was given back is then no mistake.
   */
  readonly readsAhead?: (units: number) => boolean;
  /**
   * Whether a client tries locks of blocks of this size by such addresses. The CAS expects a word
   * that only the leaf in question has, so it changes nothing else.
   */
  readonly locksAhead?: (units: number) => boolean;
  /**
   * Whether a client may write a block of this size that another one has retired meanwhile: in an
   * epoch that it announced while the block was linked, so no client can re-use it yet.
   */
  readonly overwrites?: (units: number, nodes?: number) => boolean;
  /** Whether a dying client may leave unlinked blocks that it has not retired, in any chunk. */
  readonly unlinksMany?: boolean;
  /** Switches a client's techniques on and off: each run has a mix of its own. */
  vary?(index: Index, prng: Prng): void;
  /**
   * Whether a call may take effect after its client has died: no client frees the record that it
   * replaces then, until a sweep.
   */
  readonly answersTheDead?: boolean;
  /** Whether its parts can go from memory node to memory node while it is used. */
  readonly migrates?: boolean;
  /** Whether a client can compact it in a full pool (`Index.compact`) while others use it. */
  readonly compacts?: boolean;
  /**
   * Prepares a client to which the pool gives no block: of an index whose removals need memory, and
   * go by other means then.
   */
  leaveNothing?(index: Index): void;
  /** Lets the index grow and moves nothing: clients that opened it before go by what it was. */
  grow?(index: Index): Operation<unknown>;
  /**
   * Has a client of a scope hold blocks before it begins: of an index that does something else when
   * it must claim some.
   */
  stock?(index: Index): Operation<void>;
  /** Makes a client stop waiting for others at once, because waiting shows nothing new. */
  hurry(index: Index): void;
  /** Lets this client give up after so many failed attempts or polls. */
  hasten?(index: Index, attempts: number): void;
  /** Present if the index has servers of its own, and a table that they can rebuild. */
  readonly servers?: ServerSubject;
  /**
   * First blocks of records that operations which died have left in the index, neither visible nor
   * withdrawn. What hangs on them a sweep may have brought back.
   */
  pending(index: Index): Operation<Address[]>;
  /** All blocks of these, of an index where long records can be pending. */
  pendingBlocks?(index: Index): Operation<Address[]>;
}

/** The claims of insertions that nobody commits or withdraws any more, until their keys are met. */
export function* claimsOf(index: Index): Operation<Address[]> {
  const found: Address[] = [];
  for (const parts = index.parts(); !parts.order.done; parts.order.pass()) {
    yield* parts.read();
    parts.eachSlot((record, _, isClaim) => {
      if (isClaim) found.push(record);
    });
  }
  return found;
}

/** Draws one of some choices. */
export function picker(prng: Prng): <T>(...choices: T[]) => T {
  return (...choices) => choices[prng.below(choices.length)];
}

interface Retrying<R, Q> {
  retry(request: R, reason: Q, attempt: number): Operation<void>;
}

/** Lets a client give up after so many attempts, as it would after ten thousand. */
export function giveUpSoon<R, Q>(table: Retrying<R, Q>, attempts: number): void {
  const retry = table.retry.bind(table);
  table.retry = (request, reason, attempt) => {
    if (attempt < attempts) return retry(request, reason, attempt);
    throw new StepwellError('SW_CONTENTION', 'other clients always win in this run');
  };
}

/** Two memory nodes in a quarter of the programs, so that a directory has more than one part. */
export function oftenOneNode({ seed }: IndexParameters): number {
  return seed % 4 === 0 ? 2 : 1;
}
