import type { IndexKind } from './contract.ts';

/** Kinds from outside `src/`: scripts/build.ts puts the kind of `--with FILE` here. */
export const OWN_KINDS: readonly IndexKind[] = [];
