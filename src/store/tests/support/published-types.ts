import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative, resolve } from 'node:path';
import ts from 'typescript';

const ROOT = resolve(import.meta.dirname, '../../../..');
const SOURCE = join(ROOT, 'src');
/** Modules that programs import. */
export const ENTRIES: readonly string[] = [
  'index.ts',
  'helpers/index.ts',
  'adapters/bentocache/index.ts',
  'adapters/express-rate-limit/index.ts',
  'adapters/express-session/index.ts',
  'adapters/fastify-session/index.ts',
  'adapters/keyv/index.ts',
  'adapters/level/index.ts',
  'adapters/next/index.ts',
  'adapters/opentelemetry/index.ts',
  'adapters/rate-limiter-flexible/index.ts',
  'adapters/unstorage/index.ts',
];
/** Found by programs that use the package: Node's types, and the peers of the adapters. */
const INSTALLED = [
  '@fastify/cookie',
  '@fastify/session',
  '@types/express',
  '@types/express-session',
  '@types/node',
  'abstract-level',
  'bentocache',
  'cache-manager',
  'express',
  'express-rate-limit',
  'express-session',
  'fastify',
  'keyv',
  'lmdb',
  'next',
  'rate-limiter-flexible',
  'unstorage',
];

const { options: BUILD } = ts.parseJsonConfigFileContent(
  ts.readConfigFile(join(ROOT, 'tsconfig.build.json'), ts.sys.readFile).config,
  ts.sys,
  ROOT,
);

/** The declarations that the files reach when they are built, by their path below `src`. */
export function publishedTypes(entries: readonly string[]): Map<string, string> {
  const found = new Map<string, string>();
  const left = entries.map((entry) => join(SOURCE, entry));
  for (let file = left.pop(); file !== undefined; file = left.pop()) {
    const path = relative(SOURCE, file);
    if (found.has(path)) continue;
    const text = declarationsOf(file);
    found.set(path, text);
    for (const [, import_] of text.matchAll(/(?:from|import\()\s*['"](\.[^'"]+)['"]/g)) {
      left.push(resolve(dirname(file), import_));
    }
  }
  return found;
}

/** The declarations of one file, compiled by itself: that needs every exported type written out. */
function declarationsOf(file: string): string {
  const { outputText, diagnostics = [] } = ts.transpileDeclaration(readFileSync(file, 'utf8'), {
    fileName: file,
    reportDiagnostics: true,
    compilerOptions: { ...BUILD, isolatedDeclarations: true },
  });
  if (diagnostics.length > 0) throw new Error(`${file}: ${textOf(diagnostics[0])}`);
  return outputText;
}

/**
 * The compiler's errors, under `strict`, in programs that use the package and in its declarations.
 * Leaves out the declarations of peers, which name packages that are not installed here.
 */
export function compiled(programs: Readonly<Record<string, string>>): string[] {
  const folder = mkdtempSync(join(tmpdir(), 'stepwell-types-'));
  try {
    install(folder);
    const files = Object.entries(programs).map(([name, text]) => {
      const file = join(folder, `${name}.ts`);
      writeFileSync(file, text);
      return file;
    });
    const program = ts.createProgram(files, {
      target: ts.ScriptTarget.ES2022,
      module: ts.ModuleKind.NodeNext,
      moduleResolution: ts.ModuleResolutionKind.NodeNext,
      types: ['node'],
      strict: true,
      noEmit: true,
      skipLibCheck: false,
    });
    const said = ts.getPreEmitDiagnostics(program);
    const own = said.filter(({ file }) => !file || relative(folder, file.fileName)[0] !== '.');
    return own.map((diagnostic) => {
      const { file, start = 0 } = diagnostic;
      const line = file ? file.getLineAndCharacterOfPosition(start).line + 1 : 0;
      return `${file ? relative(folder, file.fileName) : ''}:${line} ${textOf(diagnostic)}`;
    });
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** The package with its declarations, as npm would install it. */
function install(folder: string): void {
  const modules = join(folder, 'node_modules');
  const place = (path: string, text: string) => {
    const file = join(modules, 'stepwell', path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
  };
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }');
  place('package.json', readFileSync(join(ROOT, 'package.json'), 'utf8'));
  place('dist/package.json', '{ "type": "commonjs" }');
  for (const [path, text] of publishedTypes(ENTRIES)) {
    place(join('dist', path.replace(/\.ts$/, '.d.ts')), text.replaceAll(/\.ts(?=['"])/g, '.js'));
  }
  for (const name of INSTALLED) {
    mkdirSync(dirname(join(modules, name)), { recursive: true });
    symlinkSync(join(ROOT, 'node_modules', name), join(modules, name));
  }
}

function textOf({ messageText }: Pick<ts.Diagnostic, 'messageText'>): string {
  return ts.flattenDiagnosticMessageText(messageText, ' ');
}
