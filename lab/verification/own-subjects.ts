import type { Canary } from './canary.ts';
import type { Subject } from './subjects/subject.ts';

/** Exported with the kind in src/indexes/own-kinds.ts, by the same FILE. */
export const OWN_SUBJECTS: readonly Subject[] = [];
export const OWN_CANARIES: readonly Canary[] = [];
