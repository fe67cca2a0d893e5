import type { Operation } from '../../verbs/index.ts';
import { ReplyError, SYNTAX_ERROR } from '../arguments.ts';
import { type Command, signature } from '../command.ts';
import { Glob } from '../glob.ts';
import { NotificationFlags } from '../messages/notifications.ts';
import { requestLimits } from '../protocol/request-reader.ts';
import type { ServerView } from '../server-view.ts';
import type { OutputLimit } from '../settings.ts';
import { container } from './support/container.ts';

/** A parameter of CONFIG. Without `parse` it cannot be set. */
interface Parameter {
  get(server: ServerView): string | number;
  /** Returns a function that sets the parameter, or why the text is refused. */
  parse?(text: string): ((server: ServerView) => void) | string;
  /** Writes the text to the pool, for parameters kept there. May fail. */
  store?(text: string, server: ServerView): Operation<void>;
}

const INTEGER_MAX = 2 ** 31 - 1;
const MEBIBYTE = 1024 * 1024;
const UNITS: Readonly<Record<string, number>> = {
  '': 1,
  b: 1,
  k: 1000,
  kb: 1024,
  m: 1000 ** 2,
  mb: MEBIBYTE,
  g: 1000 ** 3,
  gb: 1024 ** 3,
};

/** Parameters that take effect here, and constants that tools read before they use a server. */
const PARAMETERS: Readonly<Record<string, Parameter>> = {
  appendonly: { get: () => 'no' },
  bind: { get: (server) => server.host },
  'client-output-buffer-limit': {
    get: ({ settings: { pubsubOutput: limit } }) =>
      `normal 0 0 0 slave 0 0 0 pubsub ${limit.hardBytes} ${limit.softBytes} ${limit.softSeconds}`,
    parse: parseOutputLimits,
  },
  'client-query-buffer-limit': { get: (server) => server.limits.requestBytesMax },
  databases: { get: (server) => server.databases.count },
  maxclients: setting('maxConnections', 1, 65_535),
  maxmemory: { get: () => 0 },
  'maxmemory-clients': {
    get: (server) => server.memory.bytesMax,
    parse: (text) => {
      const bytes = parseBytes(text);
      if (bytes === undefined) return 'argument must be a memory value';
      if (bytes < MEBIBYTE) return 'argument must be 1mb at least';
      return (server) => {
        server.memory.bytesMax = bytes;
      };
    },
  },
  'maxmemory-policy': { get: () => 'noeviction' },
  'notify-keyspace-events': {
    get: (server) => server.settings.notifications.text,
    parse: (text) => {
      const flags = NotificationFlags.parse(text);
      if (flags === undefined) return "Invalid event class character. Use 'Ag$lshzxeKEtmdn'.";
      return ({ settings }) => {
        settings.notifications = flags;
      };
    },
    *store(text, { messages }) {
      yield* messages.share(new NotificationFlags(text));
    },
  },
  port: { get: (server) => server.port },
  'proto-max-bulk-len': {
    get: ({ limits }) => requestLimits(limits.requestBytesMax).bulkBytesMax,
  },
  save: { get: () => '' },
  'slowlog-log-slower-than': setting('slowerThanMicroseconds', -1, Number.MAX_SAFE_INTEGER),
  // Redis sets no bound.
  'slowlog-max-len': setting('slowLogLength', 0, 10_000),
  timeout: setting('timeoutSeconds', 0, INTEGER_MAX),
};

/** A parameter that is an integer among the settings. */
function setting(
  name: 'maxConnections' | 'slowerThanMicroseconds' | 'slowLogLength' | 'timeoutSeconds',
  min: number,
  max: number,
): Parameter {
  return {
    get: ({ settings }) => settings[name],
    parse: (text) => {
      if (!/^-?[0-9]{1,16}$/.test(text)) return "argument couldn't be parsed into an integer";
      const value = Number(text);
      if (value < min || value > max) return `argument must be between ${min} and ${max} inclusive`;
      return ({ settings }) => {
        settings[name] = value;
      };
    },
  };
}

/** Parses `64mb` and the like; undefined for an invalid size. */
function parseBytes(text: string): number | undefined {
  const [, digits = '', unit = ''] = /^([0-9]{1,15})([a-z]{0,2})$/i.exec(text) ?? [];
  const bytes = Number(digits) * (UNITS[unit.toLowerCase()] ?? Number.NaN);
  return digits !== '' && Number.isSafeInteger(bytes) ? bytes : undefined;
}

/** Parses `pubsub 32mb 8mb 60`. The other classes accept only zeros: they have no limit. */
function parseOutputLimits(text: string): ((server: ServerView) => void) | string {
  const words = text.trim().split(/\s+/);
  if (words.length % 4 !== 0) return 'Wrong number of arguments in buffer limit configuration.';
  let limit: OutputLimit | undefined;
  for (let at = 0; at < words.length; at += 4) {
    const name = words[at].toLowerCase();
    const [hardBytes, softBytes] = [parseBytes(words[at + 1]), parseBytes(words[at + 2])];
    const softSeconds = /^[0-9]{1,9}$/.test(words[at + 3]) ? Number(words[at + 3]) : undefined;
    if (!['normal', 'slave', 'replica', 'pubsub'].includes(name)) {
      return 'Invalid client class specified in buffer limit configuration.';
    }
    if (hardBytes === undefined || softBytes === undefined || softSeconds === undefined) {
      return 'Error in hard, soft or soft_seconds setting in buffer limit configuration.';
    }
    if (name === 'pubsub') limit = { hardBytes, softBytes, softSeconds };
    else if (hardBytes + softBytes > 0) return 'there is a limit for the class pubsub only';
  }
  return ({ settings }) => {
    if (limit !== undefined) settings.pubsubOutput = limit;
  };
}

const inServer = (syntax: string) => signature(syntax, 'server', 'admin', 'loading', 'stale');
const NAMES: readonly string[] = Object.keys(PARAMETERS);

const get: Command = {
  ...inServer('config|get pattern [pattern ...]'),
  summary: 'Returns the parameters whose names match one of the patterns.',
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
  ...inServer('config|set parameter value [parameter value ...]'),
  summary: 'Sets parameters, all or none, until the server ends.',
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
    // Writes to the pool may fail, so they come first: then no change is made.
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
  ...inServer('config|resetstat'),
  summary: 'Begins the counters of INFO anew.',
  run(_request, { reply, server: { totals } }) {
    for (const name of Object.keys(totals) as (keyof typeof totals)[]) totals[name] = 0;
    reply.ok();
  },
};

const rewrite: Command = {
  ...inServer('config|rewrite'),
  summary: 'Refused: the server has no file of parameters.',
  run() {
    throw new ReplyError('ERR The server is running without a config file');
  },
};

export const config = container({
  ...inServer('config subcommand [argument ...]'),
  summary: 'Reads and sets the parameters of the server.',
  subcommands: [get, resetStat, rewrite, set],
});
