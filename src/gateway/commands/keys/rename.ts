import { ReplyError } from '../../arguments.ts';
import type { Command, CommandContext } from '../../command.ts';
import { transfer } from '../support/transfer.ts';

const shared = { group: 'generic', arity: 3, keys: [1, 2, 1] } as const;

export const rename: Command = {
  ...shared,
  name: 'rename',
  summary: 'Gives a value another key, which loses its own value.',
  flags: ['write'],
  run([, source, target], context) {
    renameTo(source, target, true, context);
    context.reply.ok();
  },
};

export const renamenx: Command = {
  ...shared,
  name: 'renamenx',
  summary: 'Gives a value another key that does not exist yet.',
  flags: ['write', 'fast'],
  run([, source, target], context) {
    context.reply.integer(renameTo(source, target, false, context) ? 1 : 0);
  },
};

function renameTo(
  source: Buffer,
  target: Buffer,
  replace: boolean,
  context: CommandContext,
): boolean {
  const { store } = context;
  if (source.equals(target) && store.has(source)) return false;
  const outcome = transfer({ from: store, source, to: store, target, replace, move: true });
  if (outcome === 'no source') throw new ReplyError('ERR no such key');
  if (outcome !== 'done') return false;
  context.changed('g', 'rename_from', source);
  context.changed('g', 'rename_to', target);
  return true;
}
