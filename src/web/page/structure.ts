import type { PictureLayer } from '../../indexes/picture.ts';
import type { StoreFigures } from '../../store/watching/figures.ts';
import type { PictureAnswer } from '../messages.ts';
import { ask } from './ask.ts';
import { el } from './dom.ts';
import { drawDirectory } from './draw-directory.ts';
import { drawParts } from './draw-parts.ts';
import { drawTree } from './draw-tree.ts';
import { count, share } from './format.ts';
import { StoreChoice } from './store-choice.ts';

const PARTS = 64;
const EVERY_MS = 3000;

/** The picture of one store's index, drawn again every few seconds while it is looked at. */
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

  /** The panel is shown: what it shows may be old. */
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
    // A canvas has the width that it is laid out with.
    drawParts(this.#picture, leaves.shown);
  }
}

function directoryCard(depth: number, leaves: PictureLayer): HTMLElement {
  const title = `Directory: ${count(2 ** depth)} entries lead to ${totalOf(leaves)} ${leaves.parts}`;
  const note =
    'From left to right by the last bits of the hash, the last bit first; the deeper a block ' +
    'stands, the more bits its keys share.';
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
