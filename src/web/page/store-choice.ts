import type { StoreFigures } from '../../store/watching/figures.ts';
import { el } from './dom.ts';

/** Whether the store has more records, or as far as nobody has read them yet, more memory. */
function isFuller(one: StoreFigures, other: StoreFigures): boolean {
  const [records, others] = [one, other].map(({ bound, load }) => bound?.records ?? load?.records);
  return records === undefined || others === undefined || records === others
    ? one.bytes > other.bytes
    : records > others;
}

/** The choice of a store that a view shows, at first the one with the most records. */
export class StoreChoice {
  readonly #select = el('select');
  readonly element = el('label', {}, 'Store', this.#select);
  #stores: readonly StoreFigures[] = [];
  #offered = '';

  constructor(onChange: () => void) {
    this.#select.addEventListener('change', onChange);
  }

  get store(): string {
    return this.#select.value;
  }

  get isOrdered(): boolean {
    return this.#stores.find(({ name }) => name === this.store)?.ordered ?? false;
  }

  /** Updates the list. Returns whether another store is chosen now. */
  offer(all: readonly StoreFigures[]): boolean {
    this.#stores = all.filter(({ state }) => state === 'ready');
    const offered = this.#stores.map(({ name, index }) => `${name}\n${index}`).join('\n');
    if (offered === this.#offered) return false;
    this.#offered = offered;
    const before = this.store;
    const options = this.#stores.map(({ name, index }) => {
      return el('option', { value: name }, `${name} (${index})`);
    });
    this.#select.replaceChildren(...options);
    let chosen = this.#stores.find(({ name }) => name === before);
    if (chosen === undefined) {
      for (const store of this.#stores) {
        if (chosen === undefined || isFuller(store, chosen)) chosen = store;
      }
    }
    if (chosen !== undefined) this.#select.value = chosen.name;
    return this.store !== before && this.store !== '';
  }
}
