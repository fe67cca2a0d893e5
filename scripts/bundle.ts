import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import { dirname, join, relative, resolve } from 'node:path';
import { type OutputBundle, type OutputChunk, type Plugin, rollup } from '@rollup/wasm-node';
import { transform } from 'esbuild';
import ts from 'typescript';
import { PROGRAMS } from './programs.ts';

/**
 * Bundles what the package ships: `tsx scripts/bundle.ts`, after `scripts/build.ts`. A program then
 * loads one file instead of hundreds of modules. The files are CommonJS: `require` and `import`
 * load the same ones on every supported version of Node and in Jest, so a process has each class
 * and each registry once.
 *
 * - `stepwell.js` has what a get or a set runs. Other files copy what they use of it into constants
 *   when they are loaded, because V8 checks an imported binding at each use.
 * - A file of LAZY is loaded when a function or constant of it is first used: `require` is the only
 *   way to do so in a synchronous call that bundlers of applications understand.
 */
const ROOT = resolve(import.meta.dirname, '..');
const DIST = join(ROOT, 'dist');
const MODULES = join(DIST, 'modules');
const PACKAGE = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));

/** Files, and the modules that each has. What no line names is in `stepwell`. */
const FILES: readonly [file: string, modules: RegExp][] = [
  ['', /^(index\.js$|adapters\/|helpers\/)/],
  // Other files of their folders are seldom used.
  ['stepwell', /^(store\/remote\/address|fabrics\/tcp\/wire|.*\/leaf\/leaf-turns)\.js/],
  ['leaf', /^indexes\/substrates\/leaf\//],
  ['chime', /^indexes\/chime\//],
  ['hopscotch', /^indexes\/hopscotch\//],
  ['hstore', /^indexes\/hstore\//],
  ['sephash', /^indexes\/sephash\//],
  ['shard', /^indexes\/shard\//],
  ['gateway-over-network', /^(generators\/gateway\/|gateway\/over-network\.js)/],
  ['gateway', /^gateway\//],
  ['web', /^web\//],
  ['command', /^cli\//],
  ['ucx', /^(generators\/)?fabrics\/ucx\//],
  ['network', /^(generators|fabrics\/tcp|store\/remote|store\/servers)\/|^pool\/remote-pool\.js/],
  ['administration', /^(store\/(administration|pools|watching)|fabrics\/shared\/selftest)\//],
];
const LAZY = [
  'administration.js',
  'chime.js',
  'hopscotch.js',
  'hstore.js',
  'network.js',
  'sephash.js',
  'shard.js',
  'ucx.js',
];

/** Node's own modules that take long to load, and that no get or set uses. */
const LATE_BUILTINS = ['node:child_process', 'node:v8', 'node:worker_threads'];
const IS_CONSTANT = /^[A-Z][A-Z0-9_]*$/;

/**
 * Replaces `import.meta.url`: the URL of the bundled file that a module ended up in. A bundle of ES
 * modules has no `__filename`, so the stack of an error tells which file runs.
 */
const HERE = 'hereUrl';
const FIND_HERE =
  `const ${HERE} = (typeof __filename !== 'string' && ` +
  '/file:\\/\\/.*?(?=:\\d+:\\d+\\)?$)/m.exec(String(new Error().stack))?.[0]) || ' +
  "process.getBuiltinModule('node:url').pathToFileURL(" +
  "typeof __filename === 'string' ? __filename : (process.argv[1] ?? process.cwd())).href;";

/**
 * Fills in folders that may have koffi, by paths that tools which copy what a program needs can read:
 * beside this package, for @vercel/nft and Turbopack (which follows `join` alone), and in the folder
 * of the application, for webpack in Next.js (which traces its bundles, where nothing stands beside
 * the package; of these paths, its tracer follows only assignments). The function is in use
 * (fabrics/shared/libc.ts), so that no minifier drops it.
 */
const KOFFI_FOLDERS = Object.keys(PACKAGE.optionalDependencies).flatMap((name, i) => [
  `beside[${i}] = join(__dirname, '../../${name}');`,
  `inApplication[${i}] = process.cwd() + '/node_modules/${name}';`,
]);
const TELL_TRACERS =
  `function koffiFolders(beside, inApplication) { const { join } = require('path'); ` +
  `${KOFFI_FOLDERS.join(' ')} }`;

/** A module still finds the programs and pages that stand beside its place in `dist/`. */
const placed: Plugin = {
  name: 'placed',
  load(id) {
    if (id.endsWith('/source-program.js')) {
      return { code: 'export function sourceProgram() {}', map: { mappings: '' } };
    }
    const place = JSON.stringify(relative(MODULES, id));
    const code = readFileSync(id, 'utf8');
    if (code.includes('import.meta.') && id.includes('/generators/')) {
      throw new Error(`${id} has no place`);
    }
    return {
      code: code.replaceAll('import.meta.url', `${HERE}.replace(/[^/]*$/, ${place})`),
      map: readFileSync(`${id}.map`, 'utf8'),
    };
  },
};

/** Comments are in the declarations; V8 would have to read them. */
const withoutComments: Plugin = {
  name: 'without-comments',
  async renderChunk(code) {
    const { code: shorter, map } = await transform(code, {
      target: 'node20',
      legalComments: 'none',
      sourcemap: true,
    });
    return { code: shorter, map };
  },
};

/** Turns rollup's modules into CommonJS. Lines stay where they are, so that source maps hold. */
class CommonJs {
  readonly #bundle: OutputBundle;
  readonly #files = new Map<string, ts.SourceFile>();

  constructor(bundle: OutputBundle) {
    this.#bundle = bundle;
  }

  convert(): void {
    const chunks = Object.values(this.#bundle).filter((each) => each.type === 'chunk');
    for (const { fileName, code } of chunks) {
      this.#files.set(fileName, ts.createSourceFile(fileName, code, ts.ScriptTarget.Latest, true));
    }
    for (const chunk of chunks) this.#convert(chunk);
  }

  #convert(chunk: OutputChunk): void {
    const file = this.#files.get(chunk.fileName) as ts.SourceFile;
    const edits: { from: number; to: number; text: string }[] = [];
    const replace = (node: ts.Node, text: string) => {
      edits.push({ from: node.getStart(), to: node.getEnd(), text });
    };
    const constants = new Map<string, string>();
    const visit = (node: ts.Node): void => {
      if (ts.isImportDeclaration(node)) replace(node, this.#imported(chunk, node, constants));
      else if (ts.isExportDeclaration(node)) replace(node, this.#exported(chunk, node));
      else if (ts.isIdentifier(node) && constants.has(node.text) && !isPropertyName(node)) {
        if ('name' in node.parent && node.parent.name === node)
          throw new Error(`${chunk.fileName} has two ${node.text}`);
        replace(node, constants.get(node.text) as string);
      } else {
        if (isImportOfOurs(node)) {
          const path = node.arguments[0].getText();
          replace(node, `Promise.resolve().then(() => require(${path}))`);
        }
        ts.forEachChild(node, visit);
      }
    };
    visit(file);
    let text = chunk.code;
    for (const { from, to, text: by } of edits.reverse()) {
      text = text.slice(0, from) + by + text.slice(to);
    }
    const [, shebang, code] = /^(#![^\n]*\n)?(.*)$/s.exec(text) as unknown as [
      string,
      string,
      string,
    ];
    const here = code.includes(HERE) ? FIND_HERE : '';
    if (here !== '' && dirname(chunk.fileName) !== '.') throw new Error(`${chunk.fileName} moves`);
    const tell = code.includes('koffi-${') ? TELL_TRACERS : '';
    chunk.code = `${shebang ?? ''}'use strict';${here}${tell}${code}`;
  }

  /** Adds to `constants` what stands for those of a lazy file. */
  #imported(
    { fileName }: OutputChunk,
    node: ts.ImportDeclaration,
    constants: Map<string, string>,
  ): string {
    const { text: path } = node.moduleSpecifier as ts.StringLiteral;
    const whole = loaded(path);
    const clause = node.importClause;
    // No module of ours does anything when it is loaded.
    if (clause === undefined) return '';
    const parts: string[] = [];
    if (clause.name) parts.push(`const ${clause.name.text} = ${whole};`);
    const { namedBindings: bindings } = clause;
    if (bindings && ts.isNamespaceImport(bindings)) {
      parts.push(`const ${bindings.name.text} = ${whole};`);
    } else if (bindings) {
      const names = bindings.elements.map(namesOf);
      const stubs = this.#stubs(fileName, path, names, constants);
      parts.push(stubs ?? `const { ${names.map(assigned).join(', ')} } = ${whole};`);
    }
    return parts.join(' ');
  }

  #exported({ fileName }: OutputChunk, node: ts.ExportDeclaration): string {
    const names = (node.exportClause as ts.NamedExports).elements.map(namesOf);
    const publish = ([from, to]: Names, owner = '') => `exports.${to} = ${owner}${from};`;
    if (node.moduleSpecifier === undefined) return names.map((each) => publish(each)).join(' ');
    const { text: path } = node.moduleSpecifier as ts.StringLiteral;
    const stubs = this.#stubs(fileName, path, names);
    if (stubs) return `${stubs} ${names.map(([, to]) => publish([to, to])).join(' ')}`;
    const owner = `from${node.getStart()}`;
    const published = names.map((each) => publish(each, `${owner}.`));
    return `const ${owner} = ${loaded(path)}; ${published.join(' ')}`;
  }

  /**
   * Code that loads the file when it is first used. Undefined for a file that has to be loaded now,
   * for example because a class of it is used.
   */
  #stubs(
    from: string,
    path: string,
    names: readonly Names[],
    constants = new Map<string, string>(),
  ): string | undefined {
    const target = fileOf(from, path);
    if (from === 'stepwell.js' && LATE_BUILTINS.includes(path)) {
      for (const [imported, local] of names) constants.set(local, `(${loaded(path)}.${imported})`);
      return '';
    }
    if (!LAZY.includes(target)) return undefined;
    const functions = functionsOf(this.#files.get(target) as ts.SourceFile);
    const isLate = ([imported]: Names) => functions.has(imported) || IS_CONSTANT.test(imported);
    if (!names.every(isLate)) return undefined;
    const stubs = names.map(([imported, local]) => {
      const used = `require('${path}').${imported}`;
      if (functions.has(imported)) return `function ${local}(...args) { return ${used}(...args); }`;
      constants.set(local, `(${used})`);
      return '';
    });
    return stubs.join(' ');
  }

  /** Raises an error where programs that import the library load a file that should wait. */
  checkLazy(file: string, loads = new Set<string>()): void {
    if (LAZY.includes(file)) throw new Error(`${[...loads].join(', ')} load ${file} at once`);
    if (loads.has(file)) return;
    loads.add(file);
    const { code } = this.#bundle[file] as OutputChunk;
    const paths = code.matchAll(/^(?:const \S+ = |const \{.*\} = )require\(["'](\..*?)["']\)/gm);
    for (const [, path] of paths) this.checkLazy(fileOf(file, path), loads);
  }
}

function fileOf(importer: string, path: string): string {
  return path.startsWith('.') ? join(dirname(importer), path) : path;
}

type Names = readonly [from: string, to: string];

function namesOf({ propertyName, name }: ts.ImportSpecifier | ts.ExportSpecifier): Names {
  return [(propertyName ?? name).text, name.text];
}

function assigned([from, to]: Names): string {
  return from === to ? from : `${from}: ${to}`;
}

/** Node's modules do not come from `require`, which a bundle of ES modules does not have. */
function loaded(path: string): string {
  return isBuiltin(path) ? `process.getBuiltinModule('${path}')` : `require('${path}')`;
}

function isPropertyName(node: ts.Identifier): boolean {
  const { parent } = node;
  return (
    (ts.isPropertyAccessExpression(parent) && parent.name === node) ||
    (ts.isPropertyAssignment(parent) && parent.name === node)
  );
}

function isImportOfOurs(node: ts.Node): node is ts.CallExpression {
  if (!ts.isCallExpression(node) || node.expression.kind !== ts.SyntaxKind.ImportKeyword) {
    return false;
  }
  const [path] = node.arguments;
  return ts.isStringLiteral(path) && path.text.startsWith('.');
}

/** Names under which a file exports functions. */
function functionsOf(file: ts.SourceFile): Set<string> {
  const functions = file.statements.filter(ts.isFunctionDeclaration).map(({ name }) => name?.text);
  const exported = file.statements
    .filter(ts.isExportDeclaration)
    .flatMap(({ exportClause }) => (exportClause as ts.NamedExports).elements.map(namesOf));
  return new Set(exported.filter(([from]) => functions.includes(from)).map(([, to]) => to));
}

/** What `exports` of package.json names. */
function exported(): string[] {
  const files = Object.values<{ default?: string }>(PACKAGE.exports).map(
    (entry) => entry.default ?? '',
  );
  return files.flatMap((file) => /^\.\/dist\/(.*)\.js$/.exec(file)?.[1] ?? []);
}

/** The declarations that programs reach. */
function reachedDeclarations(): Set<string> {
  const reached = new Set<string>();
  const left = exported().map((name) => join(DIST, `${name}.d.ts`));
  for (let file = left.pop(); file !== undefined; file = left.pop()) {
    if (reached.has(file)) continue;
    reached.add(file);
    const imports = readFileSync(file, 'utf8').matchAll(
      /(?:from|import\()\s*['"](\.[^'"]+)\.[jt]s['"]/g,
    );
    for (const [, path] of imports) left.push(resolve(dirname(file), `${path}.d.ts`));
  }
  return reached;
}

/** Declarations in CommonJS have to say so where they name types of a package of ES modules. */
function inCommonJs(declarations: string): string {
  return declarations.replace(
    /(?<=^import type .* from 'bentocache\/types')(?=;)/m,
    " with { 'resolution-mode': 'import' }",
  );
}

const commonJs: Plugin = {
  name: 'common-js',
  generateBundle(_, bundle) {
    const converted = new CommonJs(bundle);
    converted.convert();
    for (const entry of exported()) converted.checkLazy(`${entry}.js`);
  },
};

const programs = PROGRAMS.flatMap((path) => /^src\/(.*)\.ts$/.exec(path)?.[1] ?? []);
const entries = [...new Set([...exported(), ...programs])];
writeFileSync(join(MODULES, 'package.json'), '{ "type": "module" }\n');
const built = await rollup({
  input: Object.fromEntries(entries.map((name) => [name, join(MODULES, `${name}.js`)])),
  external: (id) => !/^[./]/.test(id),
  plugins: [placed, withoutComments],
  treeshake: false,
  onwarn(warning) {
    if (warning.code !== 'CIRCULAR_CHUNK') throw new Error(warning.message);
  },
});
await built.write({
  dir: DIST,
  sourcemap: true,
  hoistTransitiveImports: false,
  minifyInternalExports: false,
  chunkFileNames: '[name].js',
  manualChunks: (id) => {
    const path = relative(MODULES, id);
    if (entries.includes(path.replace(/\.js$/, ''))) return undefined;
    const file = FILES.find(([, modules]) => modules.test(path));
    return file === undefined ? 'stepwell' : file[0] || undefined;
  },
  plugins: [commonJs],
});
// The command finds its version there, too.
const { version } = PACKAGE;
writeFileSync(join(DIST, 'package.json'), `${JSON.stringify({ type: 'commonjs', version })}\n`);
const reached = reachedDeclarations();
for (const path of readdirSync(DIST, { recursive: true, encoding: 'utf8' })) {
  const file = join(DIST, path);
  if (!path.endsWith('.d.ts')) continue;
  if (reached.has(file)) writeFileSync(file, inCommonJs(readFileSync(file, 'utf8')));
  else rmSync(file);
}
