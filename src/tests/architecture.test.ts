import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { test } from 'node:test';
import ts from 'typescript';

/** House rules that no linter knows. */
const ROOT = resolve(import.meta.dirname, '../..');
/** The product, and the workbench, which may use all of it. */
const TREES = ['src', 'lab'];

/** A layer may import from itself and from those before it (ARCHITECTURE.md, Layers). */
const LAYERS: readonly (string | readonly string[])[] = [
  'src/errors.ts',
  'src/diagnostics.ts',
  'src/random',
  'src/verbs',
  'src/fabrics/source-program.ts',
  'src/fabrics/start-worker.ts',
  'src/fabrics/shared',
  'src/fabrics/tcp',
  'src/fabrics/ucx',
  'src/pool',
  'src/records',
  'src/indexes',
  [
    'src/store/key-value.ts',
    'src/store/internal-calls.ts',
    'src/store/closing.ts',
    'src/store/ordered-api.ts',
    'src/store/api.ts',
    'src/store/reports.ts',
    'src/store/arguments.ts',
    'src/store/sizes.ts',
    'src/store/abortable.ts',
    'src/store/attachment.ts',
    'src/store/io-errors.ts',
    'src/store/keys.ts',
    'src/store/open-options.ts',
    'src/store/values.ts',
    'src/store/index-choice.ts',
  ],
  'src/store/places',
  'src/store/eviction',
  'src/store/near',
  'src/store/administration/statistics.ts',
  'src/store/calls',
  ['src/store/store-settings.ts', 'src/store/store-in-pool.ts'],
  'src/store/administration',
  'src/store/local',
  'src/store/remote',
  'src/store/open.ts',
  'src/store/pools',
  'src/store/watching',
  'src/store/servers',
  'src/helpers',
  'src/adapters',
  'src/gateway',
  'src/web',
  'src/cli',
  'src/index.ts',
  'lab/workloads',
  'lab/support',
  'lab/simulated',
  'lab/verification',
  'lab/torture',
  'lab/bench',
  'lab/tcp',
  'lab/apps',
  'lab/near',
  'lab/gateway',
  'lab/soak',
  'lab/hit-rates',
  'lab/full-pool',
  'lab/chime',
  'lab/pages',
  'lab/simulation',
  'lab/experiments',
  'lab/conformance.ts',
  'lab/programs.ts',
  'lab/main.ts',
];
/** What all indexes share; no index imports another one. */
const SHARED_BY_INDEXES = ['substrates', 'traversal', 'contract.ts', 'picture.ts', 'sweep.ts'];

const COLUMNS_MAX = 100;
const FUNCTION_LINES_MAX = 60;

interface SourceFile {
  path: string;
  text: string;
}

const files: SourceFile[] = TREES.flatMap((tree) =>
  readdirSync(join(ROOT, tree), { recursive: true, encoding: 'utf8' })
    .map((path) => `${tree}/${path}`)
    .filter((path) => path.endsWith('.ts') && !path.startsWith('lab/dist/'))
    .map((path) => ({ path, text: readFileSync(join(ROOT, path), 'utf8') })),
);
const isTest = (path: string) => path.includes('/tests/');
const product = files.filter(({ path }) => !isTest(path));
const isOf = (path: string, folders: readonly string[]) =>
  folders.some((folder) => path === folder || path.startsWith(`${folder}/`));

function importsOf({ path, text }: SourceFile): string[] {
  const specifiers = [...text.matchAll(/(?:from|import)\s*\(?\s*'(\.[^']*)'/g)].map(([, to]) => to);
  return specifiers.map((to) => relative(ROOT, resolve(ROOT, dirname(path), to)));
}

const trees = new Map<string, ts.SourceFile>();

function parsed({ path, text }: SourceFile): ts.SourceFile {
  const tree = trees.get(path) ?? ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
  trees.set(path, tree);
  return tree;
}

function report(broken: string[]): void {
  assert.deepEqual(broken, [], `\n${broken.join('\n')}\n`);
}

const layerOf = (path: string) => LAYERS.findIndex((layer) => isOf(path, [layer].flat()));

test('every file is in a layer', () => {
  report(product.filter(({ path }) => layerOf(path) < 0).map(({ path }) => path));
});

test('a layer imports only from itself and from those before it', () => {
  const broken = product.flatMap((file) =>
    importsOf(file)
      .filter((target) => !(layerOf(target) >= 0 && layerOf(target) <= layerOf(file.path)))
      .map((target) => `${file.path} imports ${target}`),
  );
  report(broken);
});

test('no index imports another one', () => {
  const broken = product.flatMap((file) => {
    const [, own] = /^src\/indexes\/([^/]+)\//.exec(file.path) ?? [];
    if (own === undefined) return [];
    const allowed = [own, ...SHARED_BY_INDEXES];
    return importsOf(file)
      .filter((target) => target.startsWith('src/indexes/'))
      .filter((target) => !allowed.includes(target.split('/')[2]))
      .map((target) => `${file.path} imports ${target}`);
  });
  report(broken);
});

test('product code imports no test', () => {
  const broken = product.flatMap((file) =>
    importsOf(file)
      .filter((target) => isTest(target))
      .map((target) => `${file.path} imports ${target}`),
  );
  report(broken);
});

test('every import of a source file names a file that is there', () => {
  const broken = files.flatMap((file) =>
    importsOf(file)
      .filter((target) => target.endsWith('.ts') && !existsSync(join(ROOT, target)))
      .map((target) => `${file.path} imports ${target}`),
  );
  report(broken);
});

/** Files that import each other, types included; each circle once. */
function circles(): string[][] {
  const graph = new Map(product.map((file) => [file.path, importsOf(file)]));
  const found: string[][] = [];
  const order = new Map<string, number>();
  const lowest = new Map<string, number>();
  const stack: string[] = [];
  const visit = (path: string): void => {
    order.set(path, order.size);
    lowest.set(path, order.get(path) as number);
    stack.push(path);
    for (const target of graph.get(path) ?? []) {
      if (!graph.has(target)) continue;
      if (!order.has(target)) visit(target);
      if (!stack.includes(target)) continue;
      lowest.set(path, Math.min(lowest.get(path) as number, lowest.get(target) as number));
    }
    if (lowest.get(path) !== order.get(path)) return;
    const circle = stack.splice(stack.indexOf(path));
    if (circle.length > 1) found.push(circle);
  };
  for (const path of graph.keys()) if (!order.has(path)) visit(path);
  return found;
}

test('no files import each other in a circle', () => {
  report(circles().map((circle) => circle.join(' -> ')));
});

/** Whether what a constant is set to can change: a collection, or an object that is not frozen. */
function isMutable(node: ts.Expression | undefined): boolean {
  if (node === undefined) return true;
  if (!ts.isNewExpression(node)) return false;
  return /^(Map|Set|WeakMap|WeakSet|Array)$/.test(node.expression.getText());
}

test('no mutable state at module level', () => {
  const broken = product.flatMap((file) =>
    parsed(file)
      .statements.filter(ts.isVariableStatement)
      .flatMap(({ declarationList: list }) => {
        const isConst = (list.flags & ts.NodeFlags.Const) !== 0;
        return list.declarations
          .filter(({ initializer, type }) => {
            if (!isConst) return true;
            return isMutable(initializer) && !/^Readonly(Map|Set)\b/.test(type?.getText() ?? '');
          })
          .map(({ name }) => `${file.path}: ${name.getText()}`);
      }),
  );
  report(broken);
});

/** Names of functions that do not fit a screen. */
function longFunctions(file: SourceFile): string[] {
  const source = parsed(file);
  const found: string[] = [];
  const lineAt = (position: number) => source.getLineAndCharacterOfPosition(position).line;
  const visit = (node: ts.Node): void => {
    if (ts.isFunctionLike(node) && 'body' in node && node.body !== undefined) {
      const lines = lineAt(node.end) - lineAt(node.getStart()) + 1;
      const name = node.name?.getText() ?? 'a function';
      if (lines > FUNCTION_LINES_MAX) found.push(`${file.path}: ${name} has ${lines} lines`);
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

test('a function fits a screen', () => {
  report(product.flatMap(longFunctions));
});

/** `...{ a, b }` and `...[a, b]` keep the formatter from one line each, and say nothing. */
function spreadLiterals(file: SourceFile): string[] {
  const source = parsed(file);
  const found: string[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isSpreadAssignment(node) || ts.isSpreadElement(node)) {
      const { expression } = node;
      if (ts.isObjectLiteralExpression(expression) || ts.isArrayLiteralExpression(expression)) {
        const { line } = source.getLineAndCharacterOfPosition(node.getStart());
        found.push(`${file.path}:${line + 1}`);
      }
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

test('nothing is spread only to please the formatter', () => {
  report(files.flatMap(spreadLiterals));
});

test('lines have a length that one can read', () => {
  const broken = files.flatMap(({ path, text }) =>
    text.split('\n').flatMap((line, i) => {
      // A name or a text that is one literal is not cut up.
      if (/^\s*(test\(|[^'"`]*`[^`]*`?;?$|[^`]*`[,)]*$)/.test(line)) return [];
      const columns = [...line].length;
      return columns > COLUMNS_MAX ? [`${path}:${i + 1} has ${columns} columns`] : [];
    }),
  );
  report(broken);
});

test('nothing is left to do', () => {
  const marks = new RegExp(
    ['TO', 'FIX', 'XX'].map((m, i) => `\\b${m}${['DO', 'ME', 'X'][i]}\\b`).join('|'),
  );
  const broken = files.flatMap(({ path, text }) =>
    text.split('\n').flatMap((line, i) => (marks.test(line) ? [`${path}:${i + 1}: ${line}`] : [])),
  );
  report(broken);
});

test('every index says in a README what it is', () => {
  const indexes = join(ROOT, 'src/indexes');
  const folders = readdirSync(indexes, { withFileTypes: true })
    .filter(
      (entry) => entry.isDirectory() && !['substrates', 'traversal', 'tests'].includes(entry.name),
    )
    .map(({ name }) => join(indexes, name));
  report(folders.filter((folder) => !existsSync(join(folder, 'README.md'))));
});

test('a test stands in the folder of the tests', () => {
  const broken = files.filter(({ path }) => path.endsWith('.test.ts') && !isTest(path));
  report(broken.map(({ path }) => basename(path)));
});
