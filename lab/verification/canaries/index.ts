import type { Canary } from '../canary.ts';
import { OWN_CANARIES } from '../own-subjects.ts';
import { CHIME_CANARIES } from './chime.ts';
import { earlyGoodbyeCanary } from './early-goodbye.ts';
import { earlyReuseCanary } from './early-reuse.ts';
import { hastySearchCanary } from './hasty-search.ts';
import { HOPSCOTCH_CANARIES } from './hopscotch.ts';
import { HSTORE_CANARIES } from './hstore.ts';
import { ignoredRevocationCanary } from './ignored-revocation.ts';
import { shardLateFollowerCanary } from './late-follower.ts';
import { lateRemovalCanary } from './late-removal.ts';
import { leakedBlockCanary } from './leaked-block.ts';
import { blindRemovalCanary, timelessSearchCanary } from './leaving.ts';
import { lostUpdateCanary } from './lost-update.ts';
import { publishedInsertCanary } from './published-insert.ts';
import { publishedResizeCanary } from './published-resize.ts';
import { sepHashCopiedMarksCanary } from './sephash-copied-marks.ts';
import { sepHashHastyCompactionCanary } from './sephash-hasty-compaction.ts';
import { sepHashHastySearchCanary } from './sephash-hasty-search.ts';
import { sepHashLateMarkCanary } from './sephash-late-mark.ts';
import { sepHashNamelessPadCanary } from './sephash-nameless-pad.ts';
import { sepHashNextEntryCanary } from './sephash-next-entry.ts';
import { sepHashOldestKeptCanary } from './sephash-oldest-kept.ts';
import { shardHastyClearingCanary } from './shard-hasty-clearing.ts';
import { shardHastySearchCanary } from './shard-hasty-search.ts';
import { shardLateWriterCanary } from './shard-late-writer.ts';
import { shardLostSegmentsCanary } from './shard-lost-segments.ts';
import { shardReusedSlotCanary } from './shard-reused-slot.ts';
import { shardTakenPlaceCanary } from './shard-taken-place.ts';
import { shardUncountedMigrationCanary } from './shard-uncounted-migration.ts';
import { shortWalkCanary } from './short-walk.ts';
import { silentClientCanary } from './silent-client.ts';
import { splitLockCanary } from './split-lock.ts';
import { unverifiedAnnouncementCanary } from './unverified-announcement.ts';

/**
 * Planted bugs, which the checkers must find: they prove that each of them can fail. They are test
 * doubles of parts of the product and never options of it.
 */
export const CANARIES: readonly Canary[] = [
  publishedInsertCanary,
  publishedResizeCanary,
  hastySearchCanary,
  lostUpdateCanary,
  lateRemovalCanary,
  shortWalkCanary,
  earlyReuseCanary,
  silentClientCanary,
  unverifiedAnnouncementCanary,
  earlyGoodbyeCanary,
  ignoredRevocationCanary,
  leakedBlockCanary,
  splitLockCanary,
  sepHashHastySearchCanary,
  sepHashHastyCompactionCanary,
  sepHashLateMarkCanary,
  sepHashCopiedMarksCanary,
  sepHashNamelessPadCanary,
  sepHashNextEntryCanary,
  sepHashOldestKeptCanary,
  shardHastySearchCanary,
  shardHastyClearingCanary,
  shardLateFollowerCanary,
  shardReusedSlotCanary,
  shardTakenPlaceCanary,
  shardLateWriterCanary,
  shardLostSegmentsCanary,
  shardUncountedMigrationCanary,
  ...CHIME_CANARIES,
  ...HSTORE_CANARIES,
  ...HOPSCOTCH_CANARIES,
  blindRemovalCanary,
  timelessSearchCanary,
  ...OWN_CANARIES,
];
