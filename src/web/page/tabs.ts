/** Views of which one is shown; arrows move between them, and the address names the one. */
export class Tabs {
  readonly #tabs: HTMLButtonElement[];
  readonly #onShow: () => void;

  constructor(list: HTMLElement, onShow: () => void) {
    this.#tabs = [...list.querySelectorAll('button')];
    this.#onShow = onShow;
    for (const tab of this.#tabs) tab.addEventListener('click', () => this.#show(tab));
    list.addEventListener('keydown', (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step !== undefined) this.#move(step);
    });
    addEventListener('hashchange', () => this.#showNamed());
    this.#showNamed();
  }

  #showNamed(): void {
    this.#show(this.#tabs.find((tab) => panelOf(tab) === location.hash.slice(1)) ?? this.#tabs[0]);
  }

  #move(step: number): void {
    const at = this.#tabs.findIndex((tab) => tab.getAttribute('aria-selected') === 'true');
    const tab = this.#tabs[(at + step + this.#tabs.length) % this.#tabs.length];
    this.#show(tab);
    tab.focus();
  }

  #show(chosen: HTMLButtonElement): void {
    for (const tab of this.#tabs) {
      const isChosen = tab === chosen;
      tab.setAttribute('aria-selected', String(isChosen));
      tab.tabIndex = isChosen ? 0 : -1;
      (document.getElementById(panelOf(tab)) as HTMLElement).hidden = !isChosen;
    }
    if (location.hash.slice(1) !== panelOf(chosen))
      history.replaceState(null, '', `#${panelOf(chosen)}`);
    this.#onShow();
  }
}

function panelOf(tab: HTMLElement): string {
  return tab.getAttribute('aria-controls') ?? '';
}
