import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

/** House rules that no linter knows. */
const SOURCE = dirname(fileURLToPath(import.meta.url));

/** A folder may import from itself and from those before it (design.md, Layers). */
const LAYERS = [
  ...['random', 'verbs', 'fabrics', 'pool', 'records', 'indexes', 'store', 'adapters', 'gateway'],
  ...['workloads', 'verification', 'lab', 'cli'],
];
/** Programs that stand beside the layers and use all of them. */
const OUTSIDE = ['torture'];
const LINES_MAX = 450;
const COLUMNS_MAX = 100;

interface SourceFile {
  path: string;
  folder: string;
  text: string;
}

function sourceFiles(): SourceFile[] {
  return readdirSync(SOURCE, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.ts'))
    .map((path) => {
      const text = readFileSync(join(SOURCE, path), 'utf8');
      return { path, folder: path.includes('/') ? path.split('/')[0] : '', text };
    });
}

const files = sourceFiles();
const isTest = ({ path }: SourceFile) => /\.test\.ts$|(^|\/)test-support\//.test(path);
const product = files.filter((file) => !isTest(file));

function importsOf({ path, text }: SourceFile): string[] {
  const specifiers = [...text.matchAll(/(?:from|import)\s*\(?\s*'(\.[^']*)'/g)].map(([, to]) => to);
  return specifiers.map((to) => relative(SOURCE, resolve(SOURCE, dirname(path), to)));
}

function report(broken: string[]): void {
  assert.deepEqual(broken, [], `\n${broken.join('\n')}\n`);
}

test('every folder is a layer', () => {
  const folders = new Set(files.map(({ folder }) => folder).filter(Boolean));
  report([...folders].filter((folder) => ![...LAYERS, ...OUTSIDE].includes(folder)));
});

test('a folder imports only from those above it in the list of layers', () => {
  const broken: string[] = [];
  for (const file of product) {
    if (OUTSIDE.includes(file.folder)) continue;
    for (const target of importsOf(file)) {
      const folder = target.includes('/') ? target.split('/')[0] : '';
      // At the root, errors.ts is for everybody, and index.ts is the package: nobody imports it.
      const fine =
        folder === ''
          ? target === 'errors.ts'
          : file.folder === '' || LAYERS.indexOf(folder) <= LAYERS.indexOf(file.folder);
      if (!fine || OUTSIDE.includes(folder)) broken.push(`${file.path} imports ${target}`);
    }
  }
  report(broken);
});

test('product code imports no test support', () => {
  const broken = product.flatMap((file) =>
    importsOf(file)
      .filter((target) => isTest({ path: target, folder: '', text: '' }))
      .map((target) => `${file.path} imports ${target}`),
  );
  report(broken);
});

test('every import of a source file names a file that is there', () => {
  const broken = files.flatMap((file) =>
    importsOf(file)
      .filter((target) => target.endsWith('.ts') && !existsSync(join(SOURCE, target)))
      .map((target) => `${file.path} imports ${target}`),
  );
  report(broken);
});

test('no variable at module level', () => {
  const broken = product.flatMap(({ path, text }) =>
    /^(export )?(let|var)\s/m.test(text) ? [`${path} has a let at module level`] : [],
  );
  report(broken);
});

test('files have a length that one can read', () => {
  // Torture is a tool around the product, in no layer.
  const inLayers = product.filter(({ folder }) => !OUTSIDE.includes(folder));
  const broken = inLayers.flatMap(({ path, text }) => {
    const lines = text.split('\n').length - 1;
    return lines > LINES_MAX ? [`${path} has ${lines} lines`] : [];
  });
  report(broken);
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

test('no layer above the fabrics posts a verb that no fabric proves to have', () => {
  const isAbove = ({ folder }: SourceFile) => !['random', 'verbs', 'fabrics'].includes(folder);
  const unproven = /\b(maskedCas|fetchOr|MASKED_CAS|FETCH_OR)\b/;
  report(product.filter((file) => isAbove(file) && unproven.test(file.text)).map((f) => f.path));
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
  const indexes = join(SOURCE, 'indexes');
  const folders = readdirSync(indexes, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && !/^(conformance|test-support)$/.test(entry.name))
    .map(({ name }) => join(indexes, name));
  report(folders.filter((folder) => !existsSync(join(folder, 'README.md'))));
});
