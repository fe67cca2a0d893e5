import type { CommonKeys } from './common-keys.ts';
import type { OwnedKeys } from './owned-keys.ts';
import type { WatchedKeys } from './watched-keys.ts';

interface KeyGroups {
  owned: OwnedKeys;
  watched: WatchedKeys;
  common: CommonKeys;
}

/** An operation, and its mean weight, which each seed varies. */
type Operation = readonly [weight: number, run: (groups: KeyGroups) => void];

/** All operations of a session. The oracle counts operations by their index in this list. */
export const OPERATIONS = {
  set: [30, ({ owned }) => owned.withOne((key) => owned.set(key))],
  insert: [16, ({ owned }) => owned.withOne((key) => owned.insert(key))],
  update: [8, ({ owned }) => owned.withOne((key) => owned.update(key))],
  write: [12, ({ owned }) => owned.withOne((key) => owned.writeWhen(key))],
  delete: [14, ({ owned }) => owned.withOne((key) => owned.delete(key))],
  take: [8, ({ owned }) => owned.withOne((key) => owned.take(key))],
  compareAndSet: [14, ({ owned }) => owned.withOne((key) => owned.compareAndSet(key))],
  setMany: [3, ({ owned }) => owned.withMany((keys) => owned.setMany(keys))],
  deleteMany: [1, ({ owned }) => owned.withMany((keys) => owned.deleteMany(keys))],
  ownGet: [6, ({ owned }) => owned.withOne((key) => owned.check(key, 'get by the owner'))],
  get: [24, ({ watched }) => watched.check((key) => watched.get(key))],
  getEntry: [8, ({ watched }) => watched.check((key) => watched.getEntry(key))],
  has: [6, ({ watched }) => watched.has()],
  getMany: [3, ({ watched }) => watched.getMany()],
  read: [8, ({ watched }) => watched.check((key) => watched.zeroCopy(key))],
  scan: [1, ({ watched }) => watched.walk('scan')],
  entries: [1, ({ watched }) => watched.walk('entries')],
  increment: [12, ({ common }) => common.increment()],
  compareAndAdd: [6, ({ common }) => common.compareAndAdd()],
  insertToken: [10, ({ common }) => common.insertToken()],
  removeToken: [10, ({ common }) => common.removeToken()],
  writeRegister: [6, ({ common }) => common.writeRegister()],
  readRegister: [6, ({ common }) => common.readRegister()],
} as const satisfies Record<string, Operation>;

export type Kind = keyof typeof OPERATIONS;
export const KINDS = Object.keys(OPERATIONS) as readonly Kind[];
export type Mix = Readonly<Record<Kind, number>>;
