/** Node's arguments before a child's module: compiled modules need none. */
export const RUNTIME: readonly string[] = import.meta.url.endsWith('.ts')
  ? ['--import', 'tsx']
  : [];
