import type { Proof } from '../../../src/indexes/substrates/proof.ts';
import type { Request } from '../../../src/indexes/substrates/request.ts';
import { HEADER_BYTES } from '../../../src/records/layout.ts';
import { type NearReads, UNPROVEN } from '../../../src/store/near/near-reads.ts';
import {
  type Address,
  Batch,
  NULL_ADDRESS,
  type Operation,
  Scratch,
  UNIT_BYTES,
} from '../../../src/verbs/index.ts';
import type { Canary, NearParts } from '../canary.ts';

/** A proof that lacks something. */
function weakened(parts: NearParts, weaken: (proof: Proof) => void): NearParts {
  const { index, section } = parts;
  const prove = (request: Request, proof: Proof) => {
    const proves = index.prove(request, proof);
    if (proves) weaken(proof);
    return proves;
  };
  const { proofEra, records } = index;
  return { index: { prove, records, ...(proofEra !== undefined && { proofEra }) }, section };
}

/** The pool of a section with some parts of it replaced. */
function withPool({ index, section }: NearParts, replaced: object): NearParts {
  const { clock, layout, meter, reclamation } = section.pool;
  const pool = { clock, layout, meter, reclamation, ...replaced } as typeof section.pool;
  return { index, section: { ...section, pool } };
}

/** Near reads whose batches another form is executed of. */
function rewritten(reads: NearReads, rewrite: (batch: Batch) => Operation<void>): NearReads {
  const read = reads.read.bind(reads);
  reads.read = function* (key) {
    const steps = read(key);
    for (let step = steps.next(); ; step = steps.next()) {
      if (step.done) return step.value;
      yield* rewrite(step.value);
    }
  };
  return reads;
}

const isHeader = ({ bytes }: Batch, row: number) => bytes[row] === HEADER_BYTES;

/** Adds a READ of another batch. */
function repost(from: Batch, row: number, to: Batch): void {
  to.read(from.address[row], from.bytes[row], from.scratch[row], from.offset[row]);
}

/** The slot alone: a block that is used again for the key makes an old value of it. */
export const nearSlotAloneCanary: Canary = {
  name: 'near: the slot alone proves a record',
  caughtBy: 'linearizability',
  near: (parts) =>
    weakened(parts, (proof) => {
      proof.record = NULL_ADDRESS;
    }),
};

/** Two clients may draw one version. */
export const nearVersionAloneCanary: Canary = {
  name: 'near: the version without the checksum',
  caughtBy: 'linearizability',
  near: (parts) =>
    weakened(parts, ({ header }) => {
      header[0] = 0;
    }),
  nearReads: (reads) =>
    rewritten(reads, function* (batch) {
      yield batch;
      for (let row = 0; row < batch.length; row++) {
        if (isHeader(batch, row)) batch.scratch[row].i32[batch.offset[row] >> 2] = 0;
      }
    }),
};

/** The record's header first: in between, another record takes its place and then its block. */
export const nearRecordFirstCanary: Canary = {
  name: 'near: the record is read before the slot',
  caughtBy: 'linearizability',
  nearReads: (reads) =>
    rewritten(reads, function* (batch) {
      const rows = Array.from({ length: batch.length }, (_, row) => row);
      const early = new Batch();
      for (const row of rows) if (isHeader(batch, row)) repost(batch, row, early);
      if (early.length > 0) yield early;
      const late = new Batch();
      for (const row of rows) if (!isHeader(batch, row)) repost(batch, row, late);
      if (late.length > 0) yield late;
    }),
};

/** A removal clears the item word of an entry, and leaves its checksum. */
export const nearSumAloneCanary: Canary = {
  name: 'near: the checksum of an entry without its item word',
  caughtBy: 'linearizability',
  near: (parts) =>
    weakened(parts, (proof) => {
      if (proof.mark === NULL_ADDRESS) return;
      // The whole word, with the hop bitmap.
      const { mark, markLow, markHigh } = proof;
      proof.begin(mark, markLow, markHigh);
    }),
};

export const nearDeadlineCanary: Canary = {
  name: 'near: a value is kept beyond its deadline',
  caughtBy: 'linearizability',
  near: (parts) => withPool(parts, { clock: { now: () => 0, refuseFault() {} } }),
};

/** SHARD: where a table stood that was migrated, another one may stand. */
export const nearOldEraCanary: Canary = {
  name: 'near: a SHARD entry after a migration',
  caughtBy: 'reclamation',
  near: ({ index, section }) => ({
    index: {
      prove: (request, proof) => index.prove(request, proof),
      records: index.records,
    },
    section,
  }),
};

/**
 * A near read notes a use in this process alone, and posts no WRITE. The next search writes the
 * uses to the record that it finds itself, in its section. This canary remembers where the record
 * stood and writes there at the next read: by then the block may be another record's.
 */
export const nearLateUseCanary: Canary = {
  name: 'near: a use is counted outside the section of its read',
  caughtBy: 'reclamation',
  nearReads: (reads) => {
    const keep = reads.keep.bind(reads);
    const read = reads.read.bind(reads);
    const use = new Scratch(8);
    let kept: Address = NULL_ADDRESS;
    let used: Address = NULL_ADDRESS;
    reads.keep = (key, request, value) => {
      kept = request.foundAddress;
      return keep(key, request, value);
    };
    reads.read = function* (key) {
      if (used !== NULL_ADDRESS) yield new Batch().write(used + UNIT_BYTES - 8, 8, use, 0);
      const value = yield* read(key);
      used = value === UNPROVEN ? NULL_ADDRESS : kept;
      return value;
    };
    return reads;
  },
};
