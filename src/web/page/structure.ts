import type { PictureLayer, PicturePart } from '../../indexes/picture.ts';
import type { StoreFigures } from '../../store/watching/figures.ts';
import type { PictureAnswer } from '../messages.ts';
import { ask } from './ask.ts';
import { colour, el, svg } from './dom.ts';
import { count, share } from './format.ts';
import { StoreChoice } from './store-choice.ts';

const PARTS = 64;
const EVERY_MS = 3000;

/** The picture of one store's index, redrawn every few seconds while it is visible. */
export class Structure {
  readonly #choice = new StoreChoice(() => void this.#load());
  readonly #picture = el('div');
  readonly #panel: HTMLElement;
  #last: PictureAnswer | undefined;
  #loading = false;

  constructor(panel: HTMLElement) {
    this.#panel = panel;
    panel.append(el('div', { class: 'controls' }, this.#choice.element), this.#picture);
    setInterval(() => void this.#load(), EVERY_MS);
    const redraw = () => this.#draw();
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
    let width = 0;
    new ResizeObserver(() => {
      if (panel.clientWidth !== width) redraw();
      width = panel.clientWidth;
    }).observe(panel);
  }

  show(stores: readonly StoreFigures[]): void {
    if (this.#choice.offer(stores)) void this.#load();
  }

  async #load(): Promise<void> {
    const { store } = this.#choice;
    const isSeen = !this.#panel.hidden && document.visibilityState === 'visible';
    if (store === '' || !isSeen || this.#loading) return;
    this.#loading = true;
    try {
      this.#last = await ask<PictureAnswer>('picture', { store, parts: PARTS });
      this.#draw();
    } catch (error) {
      this.#picture.replaceChildren(el('p', { role: 'alert' }, (error as Error).message));
    } finally {
      this.#loading = false;
    }
    if (store !== this.#choice.store) void this.#load();
  }

  /** Call when the panel becomes visible: its picture may be out of date. */
  refresh(): void {
    void this.#load();
  }

  #draw(): void {
    if (this.#last === undefined || this.#panel.hidden) return;
    const { picture, index } = this.#last;
    const { layers, globalDepth, records, slots, isExact } = picture;
    const about = isExact ? '' : '~';
    const leaves = layers[layers.length - 1];
    const facts = [
      ['Index', index],
      ['Records', about + count(records)],
      ['Places', about + count(slots)],
      ['Load', about + share(records / Math.max(1, slots))],
      [capital(leaves.parts), totalOf(leaves)],
      ...(globalDepth === undefined ? [] : [['Global depth', String(globalDepth)]]),
    ];
    const summary = facts.map(([name, value]) => el('span', {}, `${name} `, el('b', {}, value)));
    const above = globalDepth === undefined ? null : directoryCard(globalDepth, leaves);
    const tree = layers.length > 1 ? el('div', { class: 'card' }, drawTree(layers)) : null;
    const children = [
      el('p', { class: 'summary' }, ...summary),
      above,
      tree,
      el('div', { class: 'card' }, ...partsOf(leaves)),
    ];
    this.#picture.replaceChildren(...children.filter((child) => child !== null));
    this.#picture.dataset.index = index;
    // After insertion, because a canvas gets its width from the layout.
    drawParts(this.#picture, leaves.shown);
  }
}

function directoryCard(depth: number, leaves: PictureLayer): HTMLElement {
  const title = `Directory: ${count(2 ** depth)} entries lead to ${totalOf(leaves)} ${leaves.parts}`;
  const note =
    'Blocks are ordered from left to right by the reversed bits of the hash. The deeper a block ' +
    'is, the more bits its keys share.';
  const drawing = drawDirectory(depth, leaves.shown);
  return el(
    'div',
    { class: 'card' },
    el('h2', {}, title),
    drawing,
    el('p', { class: 'notes' }, note),
  );
}

function partsOf({ parts, cell, shown, total }: PictureLayer): Node[] {
  const some = shown.length < total ? `${shown.length} of ${count(total)}` : 'all';
  const legend = el(
    'p',
    { class: 'legend' },
    `a square is one ${cell}: empty`,
    el('span', { class: 'ramp' }),
    'full',
  );
  const isWide = shown.length > 0 && shown.length <= 8;
  const grid = el('div', { class: isWide ? 'parts wide' : 'parts' });
  for (const part of shown) {
    const { name, used, slots, depth, bars = [] } = part;
    const fill = share(used / Math.max(1, slots));
    const title = `${name === '' ? '(lowest)' : name}: ${count(used)} of ${count(slots)}`;
    const head = el(
      'header',
      {},
      el('span', {}, name === '' ? '(lowest)' : name),
      el('span', {}, fill),
    );
    const label = depth === undefined ? title : `${title}, local depth ${depth}`;
    const canvas = el('canvas', { role: 'img', 'aria-label': label });
    const rows = bars.flatMap((bar) => {
      const track = el('div', { class: 'track' }, el('i'));
      const width = Math.min(100, (100 * bar.used) / Math.max(1, bar.slots));
      (track.firstChild as HTMLElement).style.width = `${width}%`;
      return [
        el('span', {}, bar.name),
        track,
        el('span', {}, `${count(bar.used)} of ${count(bar.slots)}`),
      ];
    });
    const below = rows.length > 0 ? el('div', { class: 'bars' }, ...rows) : null;
    grid.append(el('div', { class: 'part', title: label }, head, canvas, below));
  }
  return [el('h2', {}, `${capital(parts)} (${some})`), legend, grid];
}

function totalOf({ total, isExact }: PictureLayer): string {
  return `${isExact ? '' : '~'}${count(total)}`;
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

const WIDTH = 1200;
const ROW = 22;
const TOP = 16;

/**
 * Draws an extendible-hashing directory: the width of each part is its share of all hashes, its
 * height is its local depth. Parts that were not read leave gaps.
 */
function drawDirectory(globalDepth: number, parts: readonly PicturePart[]): SVGElement {
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

/** Where the hashes with this suffix begin, from 0 to 1, in the order of their reversed bits. */
function startOf(suffix: number, depth: number): number {
  let start = 0;
  for (let bit = 0; bit < depth; bit++) if ((suffix >>> bit) & 1) start += 2 ** -(bit + 1);
  return start;
}

const LEFT = 190;
const BOX = 18;
const LEVEL = 74;
const BOX_WIDTH_MAX = 60;

/** Draws the layers of a tree one below the other, with lines from each part to its children. */
function drawTree(layers: readonly PictureLayer[]): SVGElement {
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

const GAP = 1;
const SIDE_MAX = 20;
const SIDE_MIN = 5;
/** Desired height of a part's cells relative to its width, within the limits of a cell's side. */
const HEIGHT_SHARE = 0.3;

/** Draws the cells of each part into its canvas, in rows as wide as the canvas. */
function drawParts(root: HTMLElement, parts: readonly PicturePart[]): void {
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
  // May be fractional, so that the rows fill the width of the part.
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

type Rgb = [number, number, number];

/** Maps fullness to a colour, with the style sheet's current colours. */
function heat(): (fill: number) => string {
  const [empty, low, high, full] = ['empty', 'low', 'high', 'full'].map((name) => {
    return rgb(colour(`cell-${name}`));
  });
  return (fill) => {
    if (fill <= 0) return text(empty);
    if (fill < 0.75) return text(between(low, high, fill / 0.75));
    return text(between(high, full, (Math.min(1, fill) - 0.75) / 0.25));
  };
}

function rgb(hex: string): Rgb {
  const number = Number.parseInt(hex.slice(1), 16);
  return [number >> 16, (number >> 8) & 0xff, number & 0xff];
}

function between(from: Rgb, to: Rgb, share: number): Rgb {
  return from.map((part, i) => Math.round(part + (to[i] - part) * share)) as Rgb;
}

function text(parts: Rgb): string {
  return `rgb(${parts.join(' ')})`;
}
