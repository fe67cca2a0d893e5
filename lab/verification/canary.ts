import type { Index, IndexKind } from '../../src/indexes/contract.ts';
import type { LocalPool } from '../../src/pool/local-pool.ts';
import type { NearIndex, NearReads, NearSection } from '../../src/store/near/near-reads.ts';
import type { FailureKind } from './checks/failure.ts';
import type { ScenarioOptions } from './schedules/swarm.ts';
import type { Subject } from './subjects/subject.ts';

/** What near reads go by: a canary changes it. */
export interface NearParts {
  index: NearIndex;
  section: NearSection;
}

/** A planted bug, in an index or the pool: changes one client's attachment before it is used. */
export interface Canary {
  name: string;
  /** The checker that must catch it. */
  caughtBy: FailureKind;
  /** What the bug needs in order to show. */
  scenario?: ScenarioOptions;
  /** Its actions look wrong by themselves, so only their consequences count. */
  consequencesOnly?: boolean;
  /** The only kind of index that has the bug; every kind has it when left out. */
  kind?: IndexKind;
  /** Returns the index with the bug. A method, so that it may name the class of its kind. */
  index?(index: Index, pool: LocalPool): Index;
  pool?: (pool: LocalPool) => void;
  /** What near reads go by, or how they read, with the bug. */
  near?: (parts: NearParts) => NearParts;
  nearReads?: (reads: NearReads) => NearReads;
}

/** The index with the bug, if its kind has it. */
export function planted(index: Index, pool: LocalPool, canary: Canary | undefined): Index {
  const { kind } = canary ?? {};
  if (kind && kind.manifest.name !== index.manifest.name) return index;
  return canary?.index?.(index, pool) ?? index;
}

/** Whether the bug shows in this index: one in the pool shows in all. */
export function isIn({ kind }: Canary, subject: Subject): boolean {
  return kind === undefined || kind === subject.kind;
}
