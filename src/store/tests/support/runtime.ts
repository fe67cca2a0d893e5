/** What Node is given before the module that a child process runs: compiled ones need nothing. */
export const RUNTIME: readonly string[] = import.meta.url.endsWith('.ts')
  ? ['--import', 'tsx']
  : [];
