/**
 * Blocks of a page whose contents a program of the workbench writes:
 *
 *     <!-- measured: round-trips --index hstore -->
 *     (where and when it ran, and what it printed)
 *     <!-- end of measured -->
 */
export interface MeasuredBlock {
  /** The program and its options. */
  readonly words: readonly string[];
  /** Lines of the page between the two marks. */
  readonly from: number;
  readonly end: number;
}

const BEGIN = /^<!-- measured: ([^>]*\S) -->$/;
const END = '<!-- end of measured -->';

/** The blocks of a page, first to last. Throws an Error that names the line of an unpaired mark. */
export function measuredBlocks(lines: readonly string[]): MeasuredBlock[] {
  const blocks: MeasuredBlock[] = [];
  let open: { words: string[]; from: number } | undefined;
  lines.forEach((line, at) => {
    const command = BEGIN.exec(line)?.[1];
    if (command === undefined && line !== END) return;
    if ((command === undefined) !== (open !== undefined)) {
      throw new Error(`line ${at + 1}: a block begins inside another one, or ends outside of any`);
    }
    if (open !== undefined) blocks.push({ ...open, end: at });
    open = command === undefined ? undefined : { words: command.split(/\s+/), from: at + 1 };
  });
  if (open !== undefined) throw new Error(`line ${open.from}: this block does not end`);
  return blocks;
}
