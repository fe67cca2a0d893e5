import type { IndexKind } from '../../../src/indexes/contract.ts';
import { kindNamed } from '../../../src/indexes/kinds.ts';
import { OWN_SUBJECTS } from '../own-subjects.ts';
import { CHIME_SUBJECT } from './chime.ts';
import { HOPSCOTCH_SUBJECT } from './hopscotch.ts';
import { HSTORE_SUBJECT } from './hstore.ts';
import { RACE_SUBJECT } from './race.ts';
import { SEPHASH_SUBJECT } from './sephash.ts';
import { SHARD_SUBJECT } from './shard.ts';
import type { Subject } from './subject.ts';

/** Every index that `stepwell-lab verify` knows. */
export const SUBJECTS: readonly Subject[] = [
  RACE_SUBJECT,
  SEPHASH_SUBJECT,
  SHARD_SUBJECT,
  CHIME_SUBJECT,
  HSTORE_SUBJECT,
  HOPSCOTCH_SUBJECT,
  ...OWN_SUBJECTS,
];

/** Raises SW_INVALID_ARGUMENT for a name that no index has. */
export function subjectNamed(name: string): Subject {
  return subjectOf(kindNamed(name)) as Subject;
}

/** Undefined without a kind. */
export function subjectOf(kind: IndexKind | undefined): Subject | undefined {
  return SUBJECTS.find((subject) => subject.kind.manifest.name === kind?.manifest.name);
}
