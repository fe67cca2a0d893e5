import { ReplyError } from '../../arguments.ts';
import type { Command } from '../../command.ts';
import { Glob } from '../../glob.ts';
import { ReplyWriter } from '../../protocol/reply.ts';

const PAGE_KEYS = 256;

export const keys: Command = {
  name: 'keys',
  summary: 'Returns all keys that match a pattern. All other clients wait: prefer SCAN.',
  group: 'generic',
  arity: 2,
  flags: ['readonly'],
  *run([, argument], { store, reply, server }) {
    const pattern = new Glob(argument);
    const { replyBytesMax } = server.limits;
    // A store that grows meanwhile may tell of a key twice.
    const seen = new Set<string>();
    const body = new ReplyWriter();
    let cursor = 0;
    do {
      const page = yield* store.scanKeys(cursor, PAGE_KEYS, { prefix: pattern.prefix });
      for (const key of page.keys) {
        if (!pattern.matches(key)) continue;
        const name = Buffer.from(key).toString('latin1');
        if (seen.has(name)) continue;
        seen.add(name);
        body.bulk(key);
      }
      if (body.length > replyBytesMax) {
        throw new ReplyError(`ERR the reply would be longer than ${replyBytesMax} bytes: use SCAN`);
      }
      cursor = page.cursor;
    } while (cursor !== 0);
    reply.array(seen.size);
    reply.append(body);
  },
};
