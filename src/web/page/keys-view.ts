import type { StoreFigures } from '../../store/watching/figures.ts';
import type { KeysAnswer, ShownRecord, ValueAnswer } from '../messages.ts';
import type { Shown } from '../shown.ts';
import { ask } from './ask.ts';
import { el, table } from './dom.ts';
import { count, duration, records as recordsOf } from './format.ts';
import { StoreChoice } from './store-choice.ts';

const PER_PAGE = 50;

/** The browser of keys: pages of keys, and one record in full. */
export class KeysView {
  readonly #choice = new StoreChoice(() => this.#begin());
  readonly #from = el('input', { type: 'search', spellcheck: 'false', autocomplete: 'off' });
  readonly #label = el('span', {}, 'Begin at');
  readonly #prefix = el('input', { type: 'search', spellcheck: 'false', autocomplete: 'off' });
  readonly #page = el('div', { class: 'card' });
  readonly #record = el('div', { class: 'card', hidden: '', tabindex: '-1' });
  /** Where each page so far began; the current page is last. */
  #starts: (string | null)[] = [null];

  constructor(panel: HTMLElement) {
    const button = el('button', { type: 'submit' }, 'Show');
    const field = el('label', {}, this.#label, this.#from);
    const prefix = el('label', {}, 'Prefix', this.#prefix);
    const { element } = this.#choice;
    const controls = el('form', { class: 'controls' }, element, prefix, field, button);
    controls.addEventListener('submit', (event) => {
      event.preventDefault();
      this.#begin();
    });
    panel.append(controls, this.#record, this.#page);
  }

  show(stores: readonly StoreFigures[]): void {
    if (this.#choice.offer(stores)) this.#begin();
  }

  /** An ordered store lists from the given key on; another store opens just that key. */
  #begin(): void {
    const { isOrdered } = this.#choice;
    this.#label.textContent = isOrdered ? 'Begin at key' : 'Find key';
    this.#starts = [null];
    this.#record.hidden = true;
    if (!isOrdered && this.#from.value !== '') void this.#open({ key: this.#from.value });
    void this.#load();
  }

  async #load(): Promise<void> {
    const { store, isOrdered } = this.#choice;
    const next = this.#starts[this.#starts.length - 1];
    const from = isOrdered && this.#from.value !== '' ? this.#from.value : null;
    try {
      const prefix = this.#prefix.value;
      const query = { store, count: PER_PAGE, next, from, prefix };
      const answer = await ask<KeysAnswer>('keys', query);
      this.#showPage(answer);
    } catch (error) {
      this.#page.replaceChildren(el('p', { role: 'alert' }, (error as Error).message));
    }
  }

  #showPage({ records, next, ordered }: KeysAnswer): void {
    const heads = `${ordered ? 'Key, in order' : 'Key'} | Value | Bytes:`;
    const rows = records.map((record) => this.#row(record));
    const back = el('button', { type: 'button' }, 'Previous');
    const forward = el('button', { type: 'button' }, 'Next');
    back.disabled = this.#starts.length === 1;
    forward.disabled = next === null;
    back.addEventListener('click', () => {
      this.#starts.pop();
      void this.#load();
    });
    forward.addEventListener('click', () => {
      this.#starts.push(next);
      void this.#load();
    });
    const none = next === null ? 'There is no record here.' : 'None so far: see the next.';
    const title = `Page ${this.#starts.length}, ${recordsOf(records.length)}`;
    this.#page.replaceChildren(
      el('h2', {}, title),
      table(heads, rows, none, ['key', 'value']),
      el('div', { class: 'pager' }, back, forward),
    );
  }

  #row({ id, key, value }: ShownRecord): (Node | string)[] {
    const name = el('button', { type: 'button' }, shownText(key));
    name.disabled = id === null;
    name.addEventListener('click', () => void this.#open({ id }));
    const bytes = value === null ? '–' : count(value.bytes);
    return [withBadge(name, key), value === null ? '–' : withBadge(shownText(value), value), bytes];
  }

  async #open(which: { id: string | null } | { key: string }): Promise<void> {
    const { store } = this.#choice;
    this.#record.hidden = false;
    try {
      const { key, value, version, ttlMs } = await ask<ValueAnswer>('value', { store, ...which });
      const about =
        value === null
          ? 'absent'
          : `${count(value.bytes)} bytes, version ${version}, ` +
            (ttlMs === null ? 'never expires' : `expires in ${duration(ttlMs)}`) +
            (value.isCut ? '; the first bytes are shown' : '');
      this.#record.replaceChildren(
        el('h2', {}, shownText(key)),
        el('p', { class: 'quiet' }, about),
        ...(value === null ? [] : [el('pre', {}, pretty(value))]),
      );
      this.#record.focus();
    } catch (error) {
      this.#record.replaceChildren(el('p', { role: 'alert' }, (error as Error).message));
    }
  }
}

/** Marks text that is empty or cut. */
function shownText({ text, bytes, isCut }: Shown): string {
  if (bytes === 0) return '(empty)';
  return isCut ? `${text}…` : text;
}

function withBadge(text: Node | string, { kind }: Shown): Node | string {
  if (kind !== 'hex') return text;
  return el('span', {}, text, el('span', { class: 'badge' }, 'hex'));
}

function pretty({ text, kind }: Shown): string {
  return kind === 'json' ? JSON.stringify(JSON.parse(text), null, 2) : text;
}
