/**
 * The program of a thread that starts from a source: it runs through tsx, which Node 20 does not take
 * along into threads. The package has compiled files alone, and not this one (scripts/bundle.ts).
 */
export function sourceProgram(entry: URL): string {
  const tsx = JSON.stringify(import.meta.resolve('tsx/esm/api'));
  return `import(${tsx}).then((tsx) => (tsx.register(), import('${entry.href}')))`;
}
