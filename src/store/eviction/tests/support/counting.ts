import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { RACE } from '../../../../indexes/race/race.ts';
import type { Store } from '../../../api.ts';
import { LocalAttachment } from '../../../local/local-client.ts';
import { type ByHand, clientOf } from '../../../tests/support/by-hand.ts';
import { BoundedStore } from '../../bounded-store.ts';
import { Evictor } from '../../evictor.ts';

export interface Counting extends ByHand {
  bounded: BoundedStore;
  evictor: Evictor;
  attachment: LocalAttachment;
}

/** Another client of the pool's first store, which is bounded, driven by hand. */
export function counting(t: TestContext, { handle }: Store): Counting {
  const client = clientOf(RACE, t, {}, { handle }) as ByHand;
  const { pool, index } = client;
  const opened = pool.run(pool.stores.open('default'));
  assert.ok(opened);
  const bounded = pool.run(BoundedStore.open(pool, index));
  assert.ok(bounded);
  const attachment = new LocalAttachment(pool, opened.store);
  const evictor = new Evictor(bounded, index, attachment, 'default');
  return { ...client, bounded, evictor, attachment };
}
