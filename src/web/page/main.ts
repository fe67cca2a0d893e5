import type { FiguresAnswer } from '../messages.ts';
import { ask } from './ask.ts';
import { byId } from './dom.ts';
import { duration } from './format.ts';
import { KeysView } from './keys-view.ts';
import { Overview } from './overview.ts';
import { Structure } from './structure.ts';

/** Tabs, of which one is shown. Arrow keys move between them; the address names the current one. */
class Tabs {
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

const EVERY_MS = 1000;

const overview = new Overview(byId('overview'));
const structure = new Structure(byId('structure'));
const keys = new KeysView(byId('keys'));
new Tabs(byId('tab-overview').parentElement as HTMLElement, () => structure.refresh());

/** Asks again only after the answer, so that slow answers do not pile up. */
async function look(): Promise<void> {
  try {
    const answer = await ask<FiguresAnswer>('figures', { after: Math.floor(overview.last) });
    show(answer);
  } catch (error) {
    complain(`The server does not answer: ${(error as Error).message}`);
  }
  setTimeout(() => void look(), EVERY_MS);
}

function show({ figures, points, failure }: FiguresAnswer): void {
  complain(failure === null ? '' : `The pool cannot be read: ${failure}`);
  if (figures === null) return;
  const { url, at, createdAt, stores } = figures;
  document.title = `Stepwell ${url}`;
  byId('pool').textContent = `${url}, made ${duration(at - createdAt)} ago`;
  overview.addPoints(points);
  overview.show(figures);
  structure.show(stores);
  keys.show(stores);
}

function complain(text: string): void {
  const place = byId('failure');
  place.hidden = text === '';
  if (place.textContent !== text) place.textContent = text;
}

void look();
