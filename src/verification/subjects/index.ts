import { RACE_SUBJECT } from './race.ts';
import { SHARD_SUBJECT } from './shard.ts';
import type { Subject } from './subject.ts';

/** Every index that `stepwell verify` knows. */
export const SUBJECTS: readonly Subject[] = [RACE_SUBJECT, SHARD_SUBJECT];
