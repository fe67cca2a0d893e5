import type { PicturePart } from '../../indexes/picture.ts';
import { svg } from './dom.ts';
import { heat } from './heat.ts';

const WIDTH = 1200;
const ROW = 22;
const TOP = 16;

/**
 * Extendible hashing from above: each part has the share of the width that its keys have of all
 * hashes, and stands at its local depth. Where no part was read there is a gap.
 */
export function drawDirectory(globalDepth: number, parts: readonly PicturePart[]): SVGElement {
  const paint = heat();
  const depths = parts.map(({ depth = 0 }) => depth);
  const least = Math.min(...depths);
  const levels = Math.max(...depths) - least + 1;
  const height = TOP + levels * ROW;
  const label = `directory of depth ${globalDepth} over ${parts.length} parts`;
  const drawing = svg('svg', {
    viewBox: `0 0 ${WIDTH} ${height}`,
    role: 'img',
    'aria-label': label,
  });
  for (let depth = least; depth < least + levels; depth++) {
    const y = TOP + (depth - least) * ROW;
    drawing.append(svg('text', { x: 0, y: y - 4 + ROW / 2 + 4 }, `depth ${depth}`));
    const line = { x1: 62, x2: WIDTH, y1: y + ROW / 2, y2: y + ROW / 2, stroke: 'var(--grid)' };
    drawing.append(svg('line', line));
  }
  for (const { suffix = 0, depth = 0, used, slots, name } of parts) {
    const x = 64 + startOf(suffix, depth) * (WIDTH - 64);
    const width = Math.max(1, (WIDTH - 64) / 2 ** depth - 1);
    const y = TOP + (depth - least) * ROW;
    const fill = paint(used / Math.max(1, slots));
    const box = { x, y, width, height: ROW - 4, fill, rx: Math.min(3, width / 3) };
    const about = `…${name}: ${used} of ${slots}, depth ${depth}`;
    drawing.append(svg('rect', box, svg('title', {}, about)));
  }
  return drawing;
}

/** Where the hashes with this suffix begin when they are in the order of their reversed bits. */
function startOf(suffix: number, depth: number): number {
  let start = 0;
  for (let bit = 0; bit < depth; bit++) if ((suffix >>> bit) & 1) start += 2 ** -(bit + 1);
  return start;
}
