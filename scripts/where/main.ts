import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { BUNDLERS } from './bundlers.ts';
import { COMMON_JS, NODES } from './common-js.ts';
import { Folder, type Place, pack } from './folder.ts';
import { LOADINGS } from './loading.ts';
import { PACKAGE_MANAGERS } from './package-managers.ts';
import { RUNTIMES } from './runtimes.ts';

/**
 * Shows where the package runs: `npm run where [-- WORD…]`, after a build. Each place begins in an
 * empty folder with the packed tarball. With words, only places whose names contain one of them
 * run. Writes the rows of those that ran into the table of docs/where-it-runs.md.
 */
const ROOT = resolve(import.meta.dirname, '../..');
const PAGE = join(ROOT, 'docs/where-it-runs.md');
const BEGIN = '<!-- npm run where writes this table -->\n';
const END = '\n<!-- end of the table -->';
const PLACES = [...NODES, ...RUNTIMES, ...PACKAGE_MANAGERS, ...COMMON_JS, ...BUNDLERS, ...LOADINGS];

function ran(place: Place, tarball: string): string | undefined {
  const folder = new Folder(tarball);
  try {
    const version = place.run(folder);
    console.log(`works: ${place.name} (${version})`);
    return version;
  } catch (error) {
    console.log(`FAILS: ${place.name}: ${(error as Error).message}`);
    process.exitCode = 1;
    return undefined;
  } finally {
    rmSync(folder.path, { recursive: true, force: true });
  }
}

/** The table with new rows for what ran; rows of other places stay. */
function table(before: string, ran: ReadonlyMap<Place, string | undefined>): string {
  const rows = PLACES.filter((place) => !LOADINGS.includes(place)).flatMap((place) => {
    const { name, shows } = place;
    if (ran.has(place)) return `| ${name} | ${ran.get(place) ?? '**fails**'} | ${shows} |`;
    return before.split('\n').find((row) => row.startsWith(`| ${name} |`)) ?? [];
  });
  return ['| where | version | what was run |', '|---|---|---|', ...rows, ''].join('\n');
}

const words = process.argv.slice(2).map((word) => word.toLowerCase());
const chosen = PLACES.filter(({ name }) => {
  return words.length === 0 || words.some((word) => name.toLowerCase().includes(word));
});
const packed = mkdtempSync(join(tmpdir(), 'stepwell-packed-'));
const versions = new Map<Place, string | undefined>();
try {
  const tarball = pack(ROOT, packed);
  for (const place of chosen) versions.set(place, ran(place, tarball));
} finally {
  rmSync(packed, { recursive: true, force: true });
}
const page = readFileSync(PAGE, 'utf8');
const [from, to] = [page.indexOf(BEGIN) + BEGIN.length, page.indexOf(END)];
writeFileSync(PAGE, page.slice(0, from) + table(page.slice(from, to), versions) + page.slice(to));
