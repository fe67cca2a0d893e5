import { parseInteger } from '../../arguments.ts';
import type { Command } from '../../command.ts';
import { rangeWithin } from '../support/byte-range.ts';

export const getrange = reading('getrange', 'Returns the bytes of a value from start to end.');
export const substr = reading('substr', 'The former name of GETRANGE.');

function reading(name: string, summary: string): Command {
  return {
    name,
    summary,
    group: 'string',
    arity: 4,
    flags: ['readonly'],
    keys: [1, 1, 1],
    *run(request, { store, reply }) {
      const start = parseInteger(request[2]);
      const end = parseInteger(request[3]);
      const found = yield* store.read(request[1], (bytes) => {
        const { from, to } = rangeWithin(start, end, bytes.length);
        // The bytes are the pool's own.
        return Buffer.from(bytes.subarray(from, to));
      });
      reply.bulk(found ?? '');
    },
  };
}
