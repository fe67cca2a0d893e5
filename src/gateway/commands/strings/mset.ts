import { wrongNumberOfArguments } from '../../arguments.ts';
import type { Command } from '../../command.ts';
import type { Request } from '../../protocol/request-reader.ts';

export const mset: Command = {
  name: 'mset',
  summary: 'Sets several keys. Other processes of the pool see them set one by one.',
  group: 'string',
  arity: -3,
  flags: ['write', 'denyoom'],
  keys: [1, -1, 2],
  alone: true,
  *run(request, context) {
    const entries = entriesOf(request);
    yield* context.store.setMany(entries);
    context.reply.ok();
    for (const [key] of entries) yield* context.changed('$', 'set', key);
  },
};

export const msetnx: Command = {
  name: 'msetnx',
  summary: 'Sets several keys if none of them exists.',
  group: 'string',
  arity: -3,
  flags: ['write', 'denyoom'],
  keys: [1, -1, 2],
  alone: true,
  *run(request, context) {
    const { store } = context;
    // Of a key that is named twice the last value counts.
    const entries = new Map(
      entriesOf(request).map(([key, value]) => [key.toString('latin1'), { key, value }]),
    );
    let areNew = true;
    for (const { key } of entries.values()) areNew &&= !(yield* store.has(key));
    const inserted: Buffer[] = [];
    for (const { key, value } of areNew ? entries.values() : []) {
      areNew &&= yield* store.insert(key, value);
      if (areNew) inserted.push(key);
    }
    // Another process was faster with one of them.
    if (!areNew) yield* store.deleteMany(inserted);
    context.reply.integer(areNew ? 1 : 0);
    if (areNew) for (const key of inserted) yield* context.changed('$', 'set', key);
  },
};

function entriesOf(request: Request): [key: Buffer, value: Buffer][] {
  if (request.length % 2 === 0) {
    throw wrongNumberOfArguments(request[0].toString('latin1').toLowerCase());
  }
  const entries: [Buffer, Buffer][] = [];
  for (let at = 1; at < request.length; at += 2) entries.push([request[at], request[at + 1]]);
  return entries;
}
