import { ReplyError, SYNTAX_ERROR } from '../../arguments.ts';
import type { Command } from '../../command.ts';
import { Glob } from '../../glob.ts';
import type { ServerView } from '../../server-view.ts';
import { container } from '../support/container.ts';
import { PARAMETERS } from './parameters.ts';

const shared = { group: 'server', flags: ['admin', 'loading', 'stale'] } as const;
const NAMES: readonly string[] = Object.keys(PARAMETERS);

const get: Command = {
  ...shared,
  name: 'config|get',
  summary: 'Returns the parameters whose names match one of the patterns.',
  arity: -3,
  run(request, { reply, server }) {
    const found = new Set<string>();
    for (const argument of request.slice(2)) {
      const pattern = new Glob(argument, { ignoreCase: true });
      for (const name of NAMES) if (pattern.matches(Buffer.from(name))) found.add(name);
    }
    const names = NAMES.filter((name) => found.has(name));
    reply.map(names.length);
    for (const name of names) {
      reply.bulk(name);
      reply.bulk(String(PARAMETERS[name].get(server)));
    }
  },
};

const set: Command = {
  ...shared,
  name: 'config|set',
  summary: 'Sets parameters, all or none, until the server ends.',
  arity: -4,
  *run([, , ...words], { reply, server }) {
    if (words.length % 2 === 1) throw new ReplyError(SYNTAX_ERROR);
    const names = new Set<string>();
    const changes: ((server: ServerView) => void)[] = [];
    for (let at = 0; at < words.length; at += 2) {
      const name = words[at].toString('utf8', 0, 128).toLowerCase();
      if (!Object.hasOwn(PARAMETERS, name)) {
        throw new ReplyError(
          `ERR Unknown option or number of arguments for CONFIG SET - '${name}'`,
        );
      }
      if (names.has(name)) throw refused(name, 'duplicate parameter');
      const change = PARAMETERS[name].parse?.(words[at + 1].toString('latin1'));
      if (typeof change !== 'function') throw refused(name, change ?? "can't set immutable config");
      names.add(name);
      changes.push(change);
    }
    // What may fail comes first: then none of the changes is made.
    for (const [i, name] of [...names].entries()) {
      const { store } = PARAMETERS[name];
      if (store !== undefined) yield* store(words[2 * i + 1].toString('latin1'), server);
    }
    for (const change of changes) change(server);
    reply.ok();
  },
};

function refused(name: string, why: string): ReplyError {
  return new ReplyError(`ERR CONFIG SET failed (possibly related to argument '${name}') - ${why}`);
}

const resetStat: Command = {
  ...shared,
  name: 'config|resetstat',
  summary: 'Begins the counters of INFO anew.',
  arity: 2,
  run(_request, { reply, server: { totals } }) {
    for (const name of Object.keys(totals) as (keyof typeof totals)[]) totals[name] = 0;
    reply.ok();
  },
};

const rewrite: Command = {
  ...shared,
  name: 'config|rewrite',
  summary: 'Refused: the server has no file of parameters.',
  arity: 2,
  run() {
    throw new ReplyError('ERR The server is running without a config file');
  },
};

export const config = container({
  ...shared,
  name: 'config',
  summary: 'Reads and sets the parameters of the server.',
  arity: -2,
  subcommands: [get, resetStat, rewrite, set],
});
