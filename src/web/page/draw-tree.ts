import type { PictureLayer } from '../../indexes/picture.ts';
import { svg } from './dom.ts';
import { count } from './format.ts';
import { heat } from './heat.ts';

const WIDTH = 1200;
const LEFT = 190;
const BOX = 18;
const LEVEL = 74;
const BOX_WIDTH_MAX = 60;

/** The layers of a tree, one below the other, and what leads from each to the next. */
export function drawTree(layers: readonly PictureLayer[]): SVGElement {
  const paint = heat();
  const height = (layers.length - 1) * LEVEL + BOX + 8;
  const label = layers.map(({ parts, total }) => `${total} ${parts}`).join(', ');
  const drawing = svg('svg', {
    viewBox: `0 0 ${WIDTH} ${height}`,
    role: 'img',
    'aria-label': label,
  });
  const centre = (level: number, i: number) => {
    const step = (WIDTH - LEFT) / layers[level].shown.length;
    return LEFT + (i + 0.5) * step;
  };
  for (const [level, { shown }] of layers.entries()) {
    if (level === 0) continue;
    for (const [i, { above = 0 }] of shown.entries()) {
      const [x1, x2] = [centre(level - 1, above), centre(level, i)];
      const [y1, y2] = [(level - 1) * LEVEL + BOX + 4, level * LEVEL + 4];
      const middle = (y1 + y2) / 2;
      const d = `M ${x1} ${y1} C ${x1} ${middle} ${x2} ${middle} ${x2} ${y2}`;
      drawing.append(svg('path', { d, fill: 'none', stroke: 'var(--line)', 'stroke-width': 1 }));
    }
  }
  for (const [level, { shown, parts, total, isExact }] of layers.entries()) {
    const y = level * LEVEL + 4;
    const width = Math.min(BOX_WIDTH_MAX, (WIDTH - LEFT) / shown.length - 2);
    const text = `${isExact ? '' : '~'}${count(total)} ${parts}`;
    drawing.append(svg('text', { x: 0, y: y + 13 }, text));
    for (const [i, { name, used, slots }] of shown.entries()) {
      const box = {
        x: centre(level, i) - width / 2,
        y,
        width,
        height: BOX,
        rx: Math.min(3, width / 3),
      };
      const about = `from ${name === '' ? 'the lowest key' : name}: ${used} of ${slots}`;
      const fill = paint(used / Math.max(1, slots));
      drawing.append(svg('rect', { ...box, fill }, svg('title', {}, about)));
    }
  }
  return drawing;
}
