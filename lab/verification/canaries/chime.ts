import type { Canary } from '../canary.ts';

export const CHIME_CANARIES: readonly Canary[] = [];
