import type { Canary } from './canary.ts';
import type { Subject } from './subjects/subject.ts';

/** Of the kind in src/indexes/own-kinds.ts, from the same FILE. */
export const OWN_SUBJECTS: readonly Subject[] = [];
export const OWN_CANARIES: readonly Canary[] = [];
