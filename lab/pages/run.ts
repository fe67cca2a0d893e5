/** Repeats the measurements that pages cite. See `--help`. */
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { describeMachine, type Machine } from '../support/machine.ts';
import { parseOptions, UsageError } from '../support/options.ts';
import { type MeasuredBlock, measuredBlocks } from './measured-blocks.ts';

const COMMAND = 'stepwell-lab write-pages PAGE...';
const SPEC = {
  only: { kind: 'text', fallback: '', help: 'only blocks whose command contains this text' },
} as const;
const BUFFER_BYTES = 2 ** 26;

/** Runs the command of each block in each page, and puts what it prints in the block's place. */
export async function main(argv: string[]): Promise<void> {
  const firstOption = argv.findIndex((word) => word.startsWith('-'));
  const pages = argv.slice(0, firstOption < 0 ? argv.length : firstOption);
  const { only } = parseOptions(COMMAND, SPEC, argv.slice(pages.length));
  if (pages.length === 0) throw new UsageError(`${COMMAND}: name at least one page`);
  for (const page of pages) writePage(page, only);
}

function writePage(page: string, only: string): void {
  const count = blocksOf(page).length;
  for (let i = 0; i < count; i++) {
    const { words } = blocksOf(page)[i];
    const command = words.join(' ');
    if (!command.includes(only)) continue;
    console.log(`${page}: ${command}`);
    const machine = describeMachine();
    const printed = execFileSync(process.execPath, [process.argv[1], ...words], {
      encoding: 'utf8',
      maxBuffer: BUFFER_BYTES,
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    // Read the page again: the run may have taken an hour, and someone may have edited the page.
    replaceBlock(page, blocksOf(page)[i], measuredText(command, machine, printed));
  }
}

function blocksOf(page: string): MeasuredBlock[] {
  try {
    return measuredBlocks(linesOf(page));
  } catch (error) {
    throw new UsageError(`${page}: ${(error as Error).message}`);
  }
}

function replaceBlock(page: string, { from, end }: MeasuredBlock, text: readonly string[]): void {
  const lines = linesOf(page);
  lines.splice(from, end - from, ...text);
  writeFileSync(page, lines.join('\n'));
}

function linesOf(page: string): string[] {
  return readFileSync(page, 'utf8').split('\n');
}

function measuredText(command: string, machine: Machine, printed: string): string[] {
  const { node, cpus, cpu, memoryBytes, loadAverage, date } = machine;
  const memory = `${Math.round(memoryBytes / 2 ** 30)} GiB`;
  const place = `${cpus} cores (${cpu}), ${memory}, load ${loadAverage.toFixed(1)}`;
  const version = `commit ${commit()}, ${date.slice(0, 10)}, Node ${node}`;
  return [
    '',
    `\`npm run lab -- ${command}\`: ${version}, ${place}.`,
    '',
    '```text',
    ...printed.trimEnd().split('\n'),
    '```',
    '',
  ];
}

/** The commit that is measured, marked when the code has uncommitted changes. */
function commit(): string {
  const git = (...words: string[]) => execFileSync('git', words, { encoding: 'utf8' }).trim();
  const isChanged = git('status', '--porcelain', '--', 'src', 'lab', 'scripts') !== '';
  return `${git('rev-parse', '--short', 'HEAD')}${isChanged ? ' with changes' : ''}`;
}
