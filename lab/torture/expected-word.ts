/**
 * The oracle's knowledge of a key in the torture runs, in 32 bits, after RocksDB's db_stress
 * (`expected_value.h`):
 *
 *   0-14 value base | 15 write pending | 16-29 delete counter | 30 delete pending | 31 deleted
 *
 * A writer owns its key (`tryLock`), marks the operation pending before it begins and commits after
 * it was acknowledged. A reader samples the word before and after and accepts anything between.
 */
const BASE_MASK = 0x7fff;
const WRITE_PENDING = 1 << 15;
const DELETES_SHIFT = 16;
const DELETES_MASK = 0x3fff;
const DELETE_PENDING = 1 << 30;
const DELETED = 1 << 31;
/** A key that was never written. */
export const NEVER_WRITTEN = DELETED;

export const expected = {
  base: (word: number) => word & BASE_MASK,
  deletes: (word: number) => (word >>> DELETES_SHIFT) & DELETES_MASK,
  isDeleted: (word: number) => (word & DELETED) !== 0,
  isWritePending: (word: number) => (word & WRITE_PENDING) !== 0,
  isDeletePending: (word: number) => (word & DELETE_PENDING) !== 0,
  nextBase: (word: number) => (word + 1) & BASE_MASK,

  beginWrite: (word: number) => word | WRITE_PENDING,
  beginDelete: (word: number) => word | DELETE_PENDING,
  /** The pending operation did not happen. */
  rollBack: (word: number) => word & ~(WRITE_PENDING | DELETE_PENDING),
  commitWrite: (word: number) =>
    (word & ~(BASE_MASK | WRITE_PENDING | DELETED)) | expected.nextBase(word),
  commitDelete: (word: number) => {
    const deletes = (expected.deletes(word) + 1) & DELETES_MASK;
    const kept = word & ~((DELETES_MASK << DELETES_SHIFT) | DELETE_PENDING);
    return kept | (deletes << DELETES_SHIFT) | DELETED;
  },

  /** The base after the pending write, if there is one. */
  finalBase: (word: number) =>
    expected.isWritePending(word) ? expected.nextBase(word) : expected.base(word),
  finalDeletes: (word: number) =>
    (expected.deletes(word) + (expected.isDeletePending(word) ? 1 : 0)) & DELETES_MASK,

  /** For a read between the samples `before` and `after`. */
  mustExist: (before: number, after: number) =>
    !expected.isDeleted(before) && expected.deletes(before) === expected.finalDeletes(after),
  mustNotExist: (before: number, after: number) =>
    expected.isDeleted(before) && expected.base(before) === expected.finalBase(after),
  mayHaveBase: (base: number, before: number, after: number) => {
    const low = expected.base(before);
    const high = expected.finalBase(after);
    return low <= high ? base >= low && base <= high : base >= low || base <= high;
  },
};
