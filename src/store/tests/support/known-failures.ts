/**
 * Points of the conformance suite at which the product is known to fail, by title, with the reason.
 * Remove a line with the fix: the suite then guards it.
 */
export const KNOWN_FAILURES: Readonly<Record<string, string>> = {};
