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

/**
 * A table that scrolls on its own if the page is narrow. `heads` are separated by ` | `; a colon
 * behind one aligns its column of numbers to the right, as in Markdown. `kinds` are classes of
 * other columns.
 */
export function table(
  heads: string,
  rows: readonly Child[][],
  none: string,
  kinds: readonly string[] = [],
): HTMLElement {
  if (rows.length === 0) return el('p', { class: 'quiet' }, none);
  const columns = heads.split(' | ');
  const classOf = (i: number) => ({
    class: columns[i].endsWith(':') ? 'number' : (kinds[i] ?? ''),
  });
  const head = columns.map((name, i) => {
    return el('th', { ...classOf(i), scope: 'col' }, name.replace(/:$/, ''));
  });
  const body = rows.map((row) => {
    return el('tr', {}, ...row.map((cell, i) => el('td', classOf(i), cell)));
  });
  const made = el('table', {}, el('thead', {}, el('tr', {}, ...head)), el('tbody', {}, ...body));
  return el('div', { class: 'scroll' }, made);
}

/** A colour of the style sheet, as currently in effect (light or dark). */
export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
