/**
 * How often a search is repeated with other seeds: `usual` times in a test run, `campaign` times
 * when a file named `*.campaign.test.ts` imports the test.
 */
export function rounds(usual: number, campaign: number): number {
  return /\.campaign\.test\.[jt]s$/.test(process.argv[1] ?? '') ? campaign : usual;
}
