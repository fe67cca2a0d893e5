import type { StoreFigures } from '../../store/watching/figures.ts';
import { el } from './dom.ts';

/** The choice of a store that a view shows. */
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
    if (this.#stores.some(({ name }) => name === before)) this.#select.value = before;
    return this.store !== before && this.store !== '';
  }
}
