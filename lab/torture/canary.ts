import type { Key, Store, Value } from '../../src/store/api.ts';
import type { Canary } from './settings.ts';

/** One in this many writes is dropped. */
const LIE_EVERY = 50;

/**
 * A faulty store, which proves that the oracle can fail: `lie` acknowledges writes that it does not
 * make, `lose-one` drops one of a setMany's entries.
 */
export function withCanary(store: Store, canary: Canary): Store {
  if (canary === '') return store;
  let writes = 0;
  const isTurn = () => ++writes % LIE_EVERY === 0;
  const set = (key: Key, value: Value) => {
    if (canary === 'lie' && isTurn()) return;
    store.set(key, value);
  };
  const setMany = (entries: Iterable<readonly [Key, Value]>) => {
    const all = [...entries];
    if (canary === 'lose-one' && all.length > 1 && isTurn()) all.splice(all.length >> 1, 1);
    store.setMany(all);
  };
  return new Proxy(store, {
    get(target, property) {
      if (property === 'set') return set;
      if (property === 'setMany') return setMany;
      const member = Reflect.get(target, property, target);
      return typeof member === 'function' ? member.bind(target) : member;
    },
  });
}
