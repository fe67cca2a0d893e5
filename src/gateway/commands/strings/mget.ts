import { checkKey } from '../../../records/codec.ts';
import type { Operation } from '../../../verbs/index.ts';
import type { Command, CommandContext, LongReply } from '../../command.ts';
import { OUTPUT_BYTES_MAX } from '../../limits.ts';

/** Keys that are looked up together. */
const BATCH_KEYS = 256;

export const mget: Command = {
  name: 'mget',
  summary: 'Returns the values of several keys, null for each that does not exist.',
  group: 'string',
  arity: -2,
  flags: ['readonly', 'fast'],
  keys: [1, -1, 1],
  *run(request, context) {
    const keys = request.slice(1);
    // A key that is none has to be refused before the reply begins.
    for (const key of keys) checkKey(key);
    const first = yield* valuesFrom(keys, 0, context);
    context.reply.array(keys.length);
    for (const value of first) context.reply.bulkOrNull(value);
    return first.length === keys.length ? undefined : rest(keys, first.length, context);
  },
};

function rest(keys: readonly Buffer[], from: number, context: CommandContext): LongReply {
  let at = from;
  return function* () {
    const values = yield* valuesFrom(keys, at, context);
    for (const value of values) context.reply.bulkOrNull(value);
    at += values.length;
    return at < keys.length;
  };
}

function valuesFrom(
  keys: readonly Buffer[],
  at: number,
  { store }: CommandContext,
): Operation<(Uint8Array | undefined)[]> {
  return store.getMany(keys.slice(at, at + BATCH_KEYS), { maxBytes: OUTPUT_BYTES_MAX });
}
