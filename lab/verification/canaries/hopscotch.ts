import type { Canary } from '../canary.ts';

export const HOPSCOTCH_CANARIES: readonly Canary[] = [];
