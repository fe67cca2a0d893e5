import type { Operation } from '../../../verbs/index.ts';
import { ReplyError } from '../../arguments.ts';
import type { Command, CommandContext } from '../../command.ts';
import { transfer } from '../support/transfer.ts';

const shared = { group: 'generic', arity: 3, keys: [1, 2, 1], alone: true } as const;

export const rename: Command = {
  ...shared,
  name: 'rename',
  summary: 'Gives a value another key, which loses its own value.',
  flags: ['write'],
  *run([, source, target], context) {
    yield* renameTo(source, target, true, context);
    context.reply.ok();
  },
};

export const renamenx: Command = {
  ...shared,
  name: 'renamenx',
  summary: 'Gives a value another key that does not exist yet.',
  flags: ['write', 'fast'],
  *run([, source, target], context) {
    const isDone = yield* renameTo(source, target, false, context);
    context.reply.integer(isDone ? 1 : 0);
  },
};

function* renameTo(
  source: Buffer,
  target: Buffer,
  replace: boolean,
  context: CommandContext,
): Operation<boolean> {
  const { store } = context;
  if (source.equals(target) && (yield* store.has(source))) return false;
  const outcome = yield* transfer({ from: store, source, to: store, target, replace, move: true });
  if (outcome === 'no source') throw new ReplyError('ERR no such key');
  if (outcome !== 'done') return false;
  yield* context.changed('g', 'rename_from', source);
  yield* context.changed('g', 'rename_to', target);
  return true;
}
