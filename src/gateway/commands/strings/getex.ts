import { keyword, ReplyError, SYNTAX_ERROR } from '../../arguments.ts';
import type { Command } from '../../command.ts';
import type { Request } from '../../protocol/request-reader.ts';
import { expireAt, parseTimeAhead, TIME_UNITS, type TimeUnit } from '../support/expiry.ts';
import { persistKey } from '../support/persist.ts';

export const getex: Command = {
  name: 'getex',
  summary: 'Returns a value, and sets or takes away (PERSIST) when its key expires.',
  group: 'string',
  arity: -2,
  flags: ['write', 'fast'],
  keys: [1, 1, 1],
  *run(request, context) {
    const { persist, unit, argument } = parseOptions(request);
    const [, key] = request;
    const value = yield* context.store.get(key);
    if (value === undefined) {
      context.reply.null();
      return;
    }
    const time = unit && argument && parseTimeAhead(argument, unit, 'getex');
    if (time !== undefined) yield* expireAt(key, time, context);
    if (persist) yield* persistKey(key, context);
    context.reply.bulk(value);
  },
};

interface Options {
  persist: boolean;
  unit?: TimeUnit;
  argument?: Buffer;
}

function parseOptions(request: Request): Options {
  const options: Options = { persist: false };
  for (let at = 2; at < request.length; at++) {
    const option = keyword(request[at]);
    const unit = TIME_UNITS[option];
    const argument = request[at + 1];
    const isFirst = options.unit === undefined;
    if (option === 'PERSIST' && isFirst) options.persist = true;
    else if (unit && argument && isFirst && !options.persist) {
      options.unit = unit;
      options.argument = argument;
      at++;
    } else throw new ReplyError(SYNTAX_ERROR);
  }
  return options;
}
