/**
 * The program of a thread that starts from a source. It runs through tsx, which Node 20 does not
 * load in threads. The package has only compiled files, and not this one (scripts/bundle.ts).
 */
export function sourceProgram(entry: URL): string {
  const tsx = JSON.stringify(import.meta.resolve('tsx/esm/api'));
  return `import(${tsx}).then((tsx) => (tsx.register(), import('${entry.href}')))`;
}
