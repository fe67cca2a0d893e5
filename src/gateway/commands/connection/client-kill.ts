import { keyword, ReplyError, SYNTAX_ERROR } from '../../arguments.ts';
import type { Command, CommandContext } from '../../command.ts';
import { ofKind, parseId, type Selection } from '../support/client-selection.ts';

export const clientKill: Command = {
  name: 'client|kill',
  summary: 'Ends connections of this server: one by its address, or those that filters choose.',
  group: 'connection',
  arity: -3,
  flags: ['admin', 'loading', 'stale'],
  run([, , ...words], context) {
    const { reply, server, client } = context;
    if (words.length === 1) {
      const address = words[0].toString('latin1');
      const found = [...server.clients.values()].find((each) => each.address === address);
      if (found === undefined) throw new ReplyError('ERR No such client');
      reply.ok();
      found.kill();
      return;
    }
    const { selections, sparesMe } = parseFilters(words, context);
    const chosen = [...server.clients.values()].filter(
      (each) => !(sparesMe && each === client) && selections.every((isMeant) => isMeant(each)),
    );
    reply.integer(chosen.length);
    for (const each of chosen) each.kill();
  },
};

function parseFilters(
  words: readonly Buffer[],
  { server }: CommandContext,
): { selections: Selection[]; sparesMe: boolean } {
  const selections: Selection[] = [];
  let sparesMe = true;
  if (words.length % 2 === 1) throw new ReplyError(SYNTAX_ERROR);
  for (let at = 0; at < words.length; at += 2) {
    const value = words[at + 1];
    const text = value.toString('latin1');
    switch (keyword(words[at])) {
      case 'ID': {
        const id = parseId(value, 'ERR client-id should be greater than 0');
        if (id < 1) throw new ReplyError('ERR client-id should be greater than 0');
        selections.push(({ state }) => state.id === id);
        break;
      }
      case 'TYPE':
        selections.push(ofKind(value));
        break;
      case 'ADDR':
        selections.push(({ address }) => address === text);
        break;
      case 'LADDR':
        selections.push(({ localAddress }) => localAddress === text);
        break;
      case 'USER':
        if (text !== 'default' && server.passwords?.has(text) !== true) {
          throw new ReplyError(`ERR No such user '${text.slice(0, 128)}'`);
        }
        selections.push(({ state }) => state.user === text);
        break;
      case 'SKIPME':
        if (!/^(?:yes|no)$/i.test(text)) throw new ReplyError(SYNTAX_ERROR);
        sparesMe = /^yes$/i.test(text);
        break;
      default:
        throw new ReplyError(SYNTAX_ERROR);
    }
  }
  return { selections, sparesMe };
}
