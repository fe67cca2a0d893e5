import type { Canary } from '../canary.ts';

/** Its chunks are others' and its row may be too, but it goes on. */
export const ignoredRevocationCanary: Canary = {
  name: 'a client that was declared dead and does not look whether it was',
  caughtBy: 'structure',
  pool: ({ membership }) => {
    membership.isOwnState = () => true;
  },
};
