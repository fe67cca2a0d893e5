import { dirname, join, relative, resolve } from 'node:path';
import ts from 'typescript';
import { synchronousForm, touchesOperations } from './derive.ts';

/**
 * Compiles a project: `tsx scripts/build.ts PROJECT [FILE OUT]`. Modules with operations are
 * emitted in their synchronous form (derive.ts), and those that drivers of another kind need
 * (a network's, the simulator's, the verification's) once more as they are, under `generators/`.
 *
 * With FILE, an index from outside `src/`, the build goes to OUT and has one more kind: it compiles
 * the modules that list such indexes as if they imported FILE. So every process and thread that
 * runs on this build knows the index, and nothing has to hand it on.
 */
const GENERATORS = 'generators';
/** Modules that drive generators themselves. They have one form. */
const DRIVERS = [
  'src/verbs/',
  'src/fabrics/',
  'src/gateway/over-network.ts',
  'src/pool/remote-pool.ts',
  'src/store/remote/',
  'src/store/servers/index-server.ts',
  'src/store/tests/support/processes/',
  'lab/simulated/',
  'lab/simulation/',
  'lab/torture/',
  'lab/verification/',
];

/** Lists that are empty in the sources: what a build with FILE compiles instead. */
const OWN_LISTS: Readonly<Record<string, (specifier: string) => string>> = {
  'src/indexes/own-kinds.ts': (own) => `import type { IndexKind } from './contract.ts';
import { KIND } from '${own}';
export const OWN_KINDS: readonly IndexKind[] = [KIND];`,
  'lab/verification/own-subjects.ts': (own) => `import type { Canary } from './canary.ts';
import type { Subject } from './subjects/subject.ts';
import { CANARIES, SUBJECT } from '${own}';
export const OWN_SUBJECTS: readonly Subject[] = [SUBJECT];
export const OWN_CANARIES: readonly Canary[] = CANARIES;`,
};

class Build {
  readonly #program: ts.Program;
  readonly #checker: ts.TypeChecker;
  readonly #source: string;
  readonly #out: string;
  /** Modules that have two forms. */
  readonly #twofold = new Set<string>();
  readonly #errors: readonly ts.Diagnostic[];
  readonly #problems: string[] = [];

  constructor({ options, fileNames }: ts.ParsedCommandLine, own?: string, out = options.outDir) {
    const host = ts.createCompilerHost(options);
    if (own !== undefined) listOwn(host, own);
    this.#out = resolve(out as string);
    // `npm run typecheck` checks what FILE is built into; this takes two thirds of the time.
    const noCheck = own !== undefined;
    const faster = { noCheck, sourceMap: !noCheck, removeComments: noCheck };
    const all = { ...options, ...faster, outDir: this.#out };
    this.#program = ts.createProgram(fileNames, all, host);
    this.#errors = noCheck
      ? errorsOf(ts.createProgram(fileNames, options, host, this.#program), own)
      : ts.getPreEmitDiagnostics(this.#program);
    this.#checker = this.#program.getTypeChecker();
    this.#source = resolve(options.rootDir as string);
  }

  /** Returns what is wrong with the project; then nothing can be relied on. */
  run(): string[] {
    if (this.#errors.length > 0) return [ts.formatDiagnostics(this.#errors, HOST)];
    this.#findTwofold();
    const synchronous = synchronousForm(this.#checker, (node, text) => this.#refuse(node, text));
    for (const file of this.#modules()) {
      const before = [];
      if (this.#twofold.has(file.fileName)) before.push(synchronous);
      if (this.#isDriver(file)) before.push(this.#importing('', (path) => this.#twofold.has(path)));
      this.#program.emit(file, undefined, undefined, false, { before });
    }
    for (const file of this.#neededAsGenerators()) this.#emitGenerators(file);
    return this.#problems;
  }

  #modules(): ts.SourceFile[] {
    const isOurs = ({ fileName, isDeclarationFile }: ts.SourceFile) =>
      !isDeclarationFile && fileName.startsWith(`${this.#source}/`);
    return this.#program.getSourceFiles().filter(isOurs);
  }

  #isDriver({ fileName }: ts.SourceFile): boolean {
    const path = relative(process.cwd(), fileName);
    return DRIVERS.some((driver) => path.startsWith(driver));
  }

  /** A module that imports one of two forms has two itself, or it would mix them. */
  #findTwofold(): void {
    const others = this.#modules().filter((file) => !this.#isDriver(file));
    for (const file of others) {
      if (touchesOperations(this.#checker, file)) this.#twofold.add(file.fileName);
    }
    for (let before = -1; before !== this.#twofold.size; ) {
      before = this.#twofold.size;
      for (const file of others) {
        if (importsOf(file).some((path) => this.#twofold.has(path)))
          this.#twofold.add(file.fileName);
      }
    }
  }

  #neededAsGenerators(): ts.SourceFile[] {
    const needed = new Set<ts.SourceFile>();
    const add = (file: ts.SourceFile) => {
      for (const path of importsOf(file)) {
        const imported = this.#program.getSourceFile(path);
        if (!imported || !this.#twofold.has(path) || needed.has(imported)) continue;
        needed.add(imported);
        add(imported);
      }
    };
    for (const file of this.#modules()) if (this.#isDriver(file)) add(file);
    return [...needed];
  }

  #emitGenerators(file: ts.SourceFile): void {
    const redirect = this.#importing(GENERATORS, (path) => !this.#twofold.has(path));
    const write = (name: string, text: string) => {
      if (name.endsWith('.d.ts')) return;
      const moved = text.replace('"sources":["', '"sources":["../');
      ts.sys.writeFile(join(this.#out, GENERATORS, relative(this.#out, name)), moved);
    };
    this.#program.emit(file, write, undefined, false, { before: [redirect] });
  }

  /**
   * Imports of modules for which `moves` holds lead from the tree that the file is emitted in to the
   * other one.
   */
  #importing(tree: string, moves: (path: string) => boolean): ts.TransformerFactory<ts.SourceFile> {
    const other = tree === '' ? GENERATORS : '';
    const pathFrom = (folder: string, specifier: string): string | undefined => {
      const target = resolve(folder, specifier);
      if (!specifier.startsWith('.') || !moves(target)) return undefined;
      const from = join('/', tree, relative(this.#source, folder));
      const path = relative(from, join('/', other, relative(this.#source, target)));
      return path.startsWith('.') ? path : `./${path}`;
    };
    return (context) => (file) => {
      const folder = dirname(file.fileName);
      const visit = (node: ts.Node): ts.Node => {
        if (!ts.isStringLiteral(node) || !namesModule(node)) {
          return ts.visitEachChild(node, visit, context);
        }
        const path = pathFrom(folder, node.text);
        return path === undefined ? node : context.factory.createStringLiteral(path, true);
      };
      return ts.visitEachChild(file, visit, context);
    };
  }

  #refuse(node: ts.Node, text: string): void {
    const file = node.getSourceFile();
    const { line } = file.getLineAndCharacterOfPosition(node.getStart());
    this.#problems.push(`${relative(process.cwd(), file.fileName)}:${line + 1}: ${text}`);
  }
}

const HOST: ts.FormatDiagnosticsHost = {
  getCurrentDirectory: () => process.cwd(),
  getCanonicalFileName: (name) => name,
  getNewLine: () => '\n',
};

/** Modules whose values a file imports; types leave nothing behind. */
function importsOf(file: ts.SourceFile): string[] {
  const found: string[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isImportDeclaration(node) && node.importClause?.isTypeOnly) return;
    if (ts.isExportDeclaration(node) && node.isTypeOnly) return;
    const isPath = ts.isStringLiteral(node) && namesModule(node) && node.text.startsWith('.');
    if (isPath) found.push(resolve(dirname(file.fileName), node.text));
    ts.forEachChild(node, visit);
  };
  visit(file);
  return found;
}

/** Whether the literal is what `import … from`, `export … from` or `import(…)` names. */
function namesModule(literal: ts.StringLiteral): boolean {
  const { parent } = literal;
  if (ts.isImportDeclaration(parent) || ts.isExportDeclaration(parent)) return true;
  return ts.isCallExpression(parent) && parent.expression.kind === ts.SyntaxKind.ImportKeyword;
}

/** Errors in the file `own`, in the files beside it, and in the lists that import it. */
function errorsOf(program: ts.Program, own: string): ts.Diagnostic[] {
  const folder = `${dirname(resolve(own))}/`;
  const lists = Object.keys(OWN_LISTS).map((list) => resolve(list));
  const files = program
    .getSourceFiles()
    .filter(({ fileName }) => fileName.startsWith(folder) || lists.includes(fileName));
  return files.flatMap((file) => [
    ...program.getSyntacticDiagnostics(file),
    ...program.getSemanticDiagnostics(file),
  ]);
}

/** Has the compiler read lists that import the file `own`, and parse each file once. */
function listOwn(host: ts.CompilerHost, own: string): void {
  const { getSourceFile, readFile } = host;
  const parsed = new Map<string, ts.SourceFile | undefined>();
  host.getSourceFile = (path, ...how) => {
    if (!parsed.has(path)) parsed.set(path, getSourceFile(path, ...how));
    return parsed.get(path);
  };
  host.readFile = (path) => {
    const list = relative('.', path);
    return OWN_LISTS[list]?.(relative(dirname(list), own)) ?? readFile(path);
  };
}

function configuration(path: string): ts.ParsedCommandLine {
  const refuse = ({ messageText }: ts.Diagnostic) => {
    throw new Error(ts.flattenDiagnosticMessageText(messageText, '\n'));
  };
  const host = { ...ts.sys, onUnRecoverableConfigFileDiagnostic: refuse };
  return ts.getParsedCommandLineOfConfigFile(resolve(path), {}, host) as ts.ParsedCommandLine;
}

const [project, own, out] = process.argv.slice(2);
const problems = new Build(configuration(project), own, out).run();
for (const problem of problems) console.error(problem);
process.exitCode = problems.length === 0 ? 0 : 1;
