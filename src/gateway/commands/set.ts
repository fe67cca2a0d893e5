import type { WriteCondition } from '../../store/api.ts';
import { type Command, keyword, ReplyError, SYNTAX_ERROR } from '../command.ts';
import type { Request } from '../request-reader.ts';

const EXPIRY_OPTIONS: ReadonlySet<string> = new Set(['EX', 'PX', 'EXAT', 'PXAT', 'KEEPTTL']);

export const set: Command = {
  name: 'set',
  summary: 'Sets a key; NX only if it is absent, XX only if present; GET returns the former value.',
  group: 'string',
  arity: -3,
  flags: ['write', 'denyoom'],
  keys: [1, 1, 1],
  run(request, { store, reply }) {
    if (request.length === 3) {
      store.set(request[1], request[2]);
      reply.ok();
      return;
    }
    const { when, previous: wantsPrevious } = parseOptions(request);
    const { written, previous } = store.write(request[1], request[2], {
      when,
      previous: wantsPrevious,
    });
    if (wantsPrevious) reply.bulkOrNull(previous);
    else if (written) reply.ok();
    else reply.null();
  },
};

function parseOptions(request: Request): { when: WriteCondition; previous: boolean } {
  let when: WriteCondition = 'always';
  let previous = false;
  for (let at = 3; at < request.length; at++) {
    const option = keyword(request[at]);
    if (option === 'NX' && when !== 'present') when = 'absent';
    else if (option === 'XX' && when !== 'absent') when = 'present';
    else if (option === 'GET') previous = true;
    else if (EXPIRY_OPTIONS.has(option)) {
      throw new ReplyError('ERR expiry is not supported yet');
    } else throw new ReplyError(SYNTAX_ERROR);
  }
  return { when, previous };
}
