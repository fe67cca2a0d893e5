import type { FiguresAnswer } from '../messages.ts';
import { ask } from './ask.ts';
import { byId } from './dom.ts';
import { duration } from './format.ts';
import { KeysView } from './keys-view.ts';
import { Overview } from './overview.ts';
import { Structure } from './structure.ts';
import { Tabs } from './tabs.ts';

const EVERY_MS = 1000;

const overview = new Overview(byId('overview'));
const structure = new Structure(byId('structure'));
const keys = new KeysView(byId('keys'));
new Tabs(byId('tab-overview').parentElement as HTMLElement, () => structure.refresh());

/** One look after the other, so that a slow answer is not asked for twice. */
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
