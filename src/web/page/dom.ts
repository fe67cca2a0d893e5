type Child = Node | string | null;

/** An element with attributes and children; strings become text, never markup. */
export function el<K extends keyof HTMLElementTagNameMap>(
  name: K,
  attributes: Readonly<Record<string, string>> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children.filter((child) => child !== null));
  return element;
}

const SVG = 'http://www.w3.org/2000/svg';

export function svg(
  name: string,
  attributes: Readonly<Record<string, string | number>> = {},
  ...children: Child[]
): SVGElement {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  element.append(...children.filter((child) => child !== null));
  return element;
}

export function byId(id: string): HTMLElement {
  return document.getElementById(id) as HTMLElement;
}

export interface Column {
  head: string;
  /** Class of the column's cells. */
  kind?: 'number' | 'key' | 'value';
}

/** A table that scrolls on its own if the page is narrow. */
export function table(
  columns: readonly Column[],
  rows: readonly Child[][],
  none: string,
): HTMLElement {
  if (rows.length === 0) return el('p', { class: 'quiet' }, none);
  const classOf = ({ kind }: Column) => ({ class: kind ?? '' });
  const head = columns.map((column) => el('th', { ...classOf(column), scope: 'col' }, column.head));
  const body = rows.map((row) => {
    return el('tr', {}, ...row.map((cell, i) => el('td', classOf(columns[i]), cell)));
  });
  const made = el('table', {}, el('thead', {}, el('tr', {}, ...head)), el('tbody', {}, ...body));
  return el('div', { class: 'scroll' }, made);
}

/** A colour of the style sheet, as currently in effect (light or dark). */
export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
