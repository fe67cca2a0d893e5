import type { IndexKind } from './contract.ts';

/** Kinds from outside `src/`. A build `--with FILE` puts that file's kind here: scripts/build.ts. */
export const OWN_KINDS: readonly IndexKind[] = [];
