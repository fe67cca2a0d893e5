/**
 * Points of the conformance suite at which the product is known to fail. Remove a line with the
 * fix: the suite then guards it.
 */
const GROUP = 'a walk reads beyond its group unless 3 buckets fill whole lines (race/walk.ts)';

export const KNOWN_FAILURES: Readonly<Record<string, string>> = {
  'a key that is there during the whole iteration comes once, whatever splits': GROUP,
  'scan while the store splits: a key that stays comes at least once': GROUP,
  'clear removes what was there, also after splits': GROUP,
  'a handle whose directory is stale finds everything': GROUP,
  model: GROUP,
};
