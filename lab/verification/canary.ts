import type { Index, IndexKind } from '../../src/indexes/contract.ts';
import type { LocalPool } from '../../src/pool/local-pool.ts';
import type { NearIndex, NearReads, NearSection } from '../../src/store/near/near-reads.ts';
import type { FailureKind } from './checks/failure.ts';
import type { ScenarioOptions } from './schedules/swarm.ts';
import type { Subject } from './subjects/subject.ts';

/** What near reads depend on, for a canary to replace. */
export interface NearParts {
  index: NearIndex;
  section: NearSection;
}

/** A bug planted in an index or the pool. It changes one client's attachment before first use. */
export interface Canary {
  name: string;
  /** The checker that must catch it. */
  caughtBy: FailureKind;
  /** The scenario in which the bug shows. */
  scenario?: ScenarioOptions;
  /** Skips the grace check, which the bug fails at once, so that its consequences must be found. */
  consequencesOnly?: boolean;
  /** The only kind of index that has the bug; by default every kind has it. */
  kind?: IndexKind;
  /** Returns the index with the bug. A method, so that it may name its kind's own class. */
  index?(index: Index, pool: LocalPool): Index;
  pool?: (pool: LocalPool) => void;
  /** Plants the bug in what near reads depend on (`near`) or in how they read (`nearReads`). */
  near?: (parts: NearParts) => NearParts;
  nearReads?: (reads: NearReads) => NearReads;
}

/** The index with the bug, if its kind has it. */
export function planted(index: Index, pool: LocalPool, canary: Canary | undefined): Index {
  const { kind } = canary ?? {};
  if (kind && kind.manifest.name !== index.manifest.name) return index;
  return canary?.index?.(index, pool) ?? index;
}

/** Whether the subject's index has the bug. A bug without a kind is in all of them. */
export function isIn({ kind }: Canary, subject: Subject): boolean {
  return kind === undefined || kind === subject.kind;
}
