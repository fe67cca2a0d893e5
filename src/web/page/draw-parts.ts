import type { PicturePart } from '../../indexes/picture.ts';
import { heat } from './heat.ts';

const GAP = 1;
const SIDE_MAX = 20;
const SIDE_MIN = 5;
/** Of the width that the cells have, as long as they are no larger or smaller. */
const HEIGHT_SHARE = 0.3;

/** Draws the cells of each part into its canvas, as many in a row as make whole rows. */
export function drawParts(root: HTMLElement, parts: readonly PicturePart[]): void {
  const paint = heat();
  const canvases = root.querySelectorAll<HTMLCanvasElement>('.part canvas');
  for (const [i, canvas] of canvases.entries()) drawCells(canvas, parts[i].cells, paint);
}

function drawCells(
  canvas: HTMLCanvasElement,
  cells: readonly number[],
  paint: (fill: number) => string,
): void {
  const width = canvas.clientWidth;
  const wanted = Math.sqrt((width * width * HEIGHT_SHARE) / Math.max(1, cells.length));
  const least = Math.max(SIDE_MIN, Math.min(SIDE_MAX, Math.floor(wanted)));
  const columns = Math.max(1, Math.min(cells.length, Math.floor(width / least)));
  // Fractions of a pixel, so that the rows are as long as the part is wide.
  const side = Math.min(SIDE_MAX, width / columns);
  const rows = Math.ceil(cells.length / columns);
  const ratio = window.devicePixelRatio || 1;
  canvas.width = width * ratio;
  canvas.height = Math.max(1, rows * side * ratio);
  canvas.style.height = `${Math.max(1, rows * side)}px`;
  const context = canvas.getContext('2d') as CanvasRenderingContext2D;
  context.scale(ratio, ratio);
  for (const [i, fill] of cells.entries()) {
    context.fillStyle = paint(fill);
    const x = (i % columns) * side;
    const y = Math.floor(i / columns) * side;
    context.fillRect(x, y, side - GAP, side - GAP);
  }
}
