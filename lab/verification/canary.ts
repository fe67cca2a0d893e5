import { ChimeIndex } from '../../src/indexes/chime/chime.ts';
import type { Index } from '../../src/indexes/contract.ts';
import { HopscotchIndex } from '../../src/indexes/hopscotch/hopscotch.ts';
import { HStoreIndex } from '../../src/indexes/hstore/hstore.ts';
import { RaceIndex } from '../../src/indexes/race/race.ts';
import { SepHashIndex } from '../../src/indexes/sephash/sephash.ts';
import { ShardIndex } from '../../src/indexes/shard/shard.ts';
import type { LocalPool } from '../../src/pool/local-pool.ts';
import type { FailureKind } from './checks/failure.ts';
import type { ScenarioOptions } from './schedules/swarm.ts';
import { CHIME_SUBJECT } from './subjects/chime.ts';
import { HOPSCOTCH_SUBJECT } from './subjects/hopscotch.ts';
import { HSTORE_SUBJECT } from './subjects/hstore.ts';
import { RACE_SUBJECT } from './subjects/race.ts';
import { SEPHASH_SUBJECT } from './subjects/sephash.ts';
import { SHARD_SUBJECT } from './subjects/shard.ts';
import type { Subject } from './subjects/subject.ts';

/** A planted bug, in an index or the pool: changes one client's attachment before it is used. */
export interface Canary {
  name: string;
  /** The checker that must catch it. */
  caughtBy: FailureKind;
  /** What the bug needs in order to show. */
  scenario?: ScenarioOptions;
  /** What it does looks wrong by itself: only what follows of it counts. */
  consequencesOnly?: boolean;
  /** A bug in RACE. */
  index?: (index: RaceIndex, pool: LocalPool) => RaceIndex;
  /** A bug in SepHash. */
  sephash?: (index: SepHashIndex, pool: LocalPool) => SepHashIndex;
  /** A bug in SHARD. */
  shard?: (index: ShardIndex, pool: LocalPool) => ShardIndex;
  /** A bug in CHIME. */
  chime?: (index: ChimeIndex, pool: LocalPool) => ChimeIndex;
  /** A bug in HStore. */
  hstore?: (index: HStoreIndex, pool: LocalPool) => HStoreIndex;
  /** A bug in the hopscotch hash table. */
  hopscotch?: (index: HopscotchIndex, pool: LocalPool) => HopscotchIndex;
  pool?: (pool: LocalPool) => void;
}

/** The index with the bug, if the bug is in one of its kind. */
export function planted(index: Index, pool: LocalPool, canary: Canary | undefined): Index {
  if (index instanceof RaceIndex) return canary?.index?.(index, pool) ?? index;
  if (index instanceof SepHashIndex) return canary?.sephash?.(index, pool) ?? index;
  if (index instanceof ShardIndex) return canary?.shard?.(index, pool) ?? index;
  if (index instanceof ChimeIndex) return canary?.chime?.(index, pool) ?? index;
  if (index instanceof HStoreIndex) return canary?.hstore?.(index, pool) ?? index;
  if (index instanceof HopscotchIndex) return canary?.hopscotch?.(index, pool) ?? index;
  return index;
}

/** Whether the bug shows in this index: one in the pool shows in all. */
export function isIn(canary: Canary, subject: Subject): boolean {
  const kinds = KINDS.filter(([kind]) => canary[kind]);
  return kinds.length === 0 || kinds.some(([, own]) => own === subject);
}

/** The first index that the bug is in. */
export function subjectOf(canary: Canary | undefined): Subject | undefined {
  return KINDS.find(([kind]) => canary?.[kind])?.[1];
}

const KINDS = [
  ['index', RACE_SUBJECT],
  ['shard', SHARD_SUBJECT],
  ['chime', CHIME_SUBJECT],
  ['hstore', HSTORE_SUBJECT],
  ['hopscotch', HOPSCOTCH_SUBJECT],
  ['sephash', SEPHASH_SUBJECT],
] as const;
