import type { Operation } from '../../../verbs/index.ts';
import { ReplyError } from '../../arguments.ts';
import type { Command, CommandContext } from '../../command.ts';
import { container } from '../support/container.ts';

const shared = { group: 'generic', arity: 3, flags: ['readonly'], keys: [2, 2, 1] } as const;
/** The longest string that Redis keeps beside its header. */
const EMBEDDED_BYTES_MAX = 44;

const encoding: Command = {
  ...shared,
  name: 'object|encoding',
  summary: 'Returns how Redis would keep such a value when it is set: int, embstr or raw.',
  *run([, , key], { store, reply }) {
    reply.bulkOrNull(yield* store.read(key, encodingOf));
  },
};

const refcount: Command = {
  ...shared,
  name: 'object|refcount',
  summary: 'Returns 1: values are not shared.',
  *run([, , key], context) {
    if (yield* existsOrNull(key, context)) context.reply.integer(1);
  },
};

const idletime: Command = {
  ...shared,
  name: 'object|idletime',
  summary: 'Refused: times of access are not kept.',
  *run([, , key], context) {
    if (yield* existsOrNull(key, context)) {
      throw new ReplyError('ERR times of access are kept of records that slide only');
    }
  },
};

const freq: Command = {
  ...shared,
  name: 'object|freq',
  summary: 'Refused: frequencies of access are not kept.',
  *run([, , key], context) {
    if (!(yield* existsOrNull(key, context))) return;
    throw new ReplyError(
      'ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note ' +
        'that when switching between policies at runtime LRU and LFU data will take some time to ' +
        'adjust.',
    );
  },
};

export const object = container({
  name: 'object',
  summary: 'Tells how a value is kept.',
  group: 'generic',
  arity: -2,
  flags: ['readonly'],
  subcommands: [encoding, freq, idletime, refcount],
});

function* existsOrNull(key: Buffer, { store, reply }: CommandContext): Operation<boolean> {
  const exists = yield* store.has(key);
  if (!exists) reply.null();
  return exists;
}

function encodingOf(bytes: Uint8Array): string {
  const text = bytes.length > 20 ? '' : Buffer.from(bytes).toString('latin1');
  const isInteger = /^(?:0|-?[1-9][0-9]*)$/.test(text);
  if (isInteger && BigInt.asIntN(64, BigInt(text)) === BigInt(text)) return 'int';
  return bytes.length <= EMBEDDED_BYTES_MAX ? 'embstr' : 'raw';
}
