import type { WriteOptions } from '../../../store/api.ts';
import { keyword, ReplyError, SYNTAX_ERROR } from '../../arguments.ts';
import type { Command } from '../../command.ts';
import type { Request } from '../../protocol/request-reader.ts';
import { parseTimeAhead, TIME_UNITS } from '../support/expiry.ts';

export const set: Command = {
  name: 'set',
  summary: 'Sets a key; with a time to live, if it is absent (NX) or present (XX); returns (GET).',
  group: 'string',
  arity: -3,
  flags: ['write', 'denyoom'],
  keys: [1, 1, 1],
  *run(request, context) {
    const { store, reply } = context;
    const [, key, value] = request;
    if (request.length === 3) {
      yield* store.set(key, value);
      reply.ok();
      yield* context.changed('$', 'set', key);
      return;
    }
    const options = parseOptions(request);
    const { written, previous } = yield* store.write(key, value, options);
    if (options.previous) reply.bulkOrNull(previous);
    else if (written) reply.ok();
    else reply.null();
    if (!written) return;
    yield* context.changed('$', 'set', key);
    if (options.expiresAt !== undefined) yield* context.changed('g', 'expire', key);
  },
};

function parseOptions(request: Request): WriteOptions {
  const options: WriteOptions = {};
  let time: (() => number) | undefined;
  for (let at = 3; at < request.length; at++) {
    const option = keyword(request[at]);
    const unit = TIME_UNITS[option];
    const argument = request[at + 1];
    if (option === 'NX' && options.when !== 'present') options.when = 'absent';
    else if (option === 'XX' && options.when !== 'absent') options.when = 'present';
    else if (option === 'GET') options.previous = true;
    else if (option === 'KEEPTTL' && time === undefined) options.keepTtl = true;
    else if (unit && argument && time === undefined && !options.keepTtl) {
      time = () => parseTimeAhead(argument, unit, 'set');
      at++;
    } else throw new ReplyError(SYNTAX_ERROR);
  }
  // A wrong option is told before a wrong time.
  if (time !== undefined) options.expiresAt = time();
  return options;
}
