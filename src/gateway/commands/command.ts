import { keyword, ReplyError, SYNTAX_ERROR } from '../arguments.ts';
import {
  type Command,
  type CommandTable,
  hasArity,
  type LongReply,
  signature,
  subcommandOf,
} from '../command.ts';
import { Glob } from '../glob.ts';
import type { ReplyWriter } from '../protocol/reply.ts';
import { OUTPUT_BYTES_MAX } from '../settings.ts';
import { container } from './support/container.ts';

const inServer = (syntax: string) => signature(syntax, 'server', 'loading', 'stale');

const count: Command = {
  ...inServer('command|count'),
  summary: 'Returns the number of commands.',
  run(_request, { reply, commands }) {
    reply.integer(commands.all.length);
  },
};

const info: Command = {
  ...inServer('command|info [name ...]'),
  summary: 'Describes the named commands, or all: arity, flags and where the keys are.',
  // biome-ignore lint/correctness/useYield: only an operation has a long reply
  *run([, , ...names], { reply, commands }) {
    if (names.length === 0) {
      writeAll(reply, commands);
      return undefined;
    }
    reply.array(names.length);
    return describeNamed(names, reply, commands);
  },
};

/** In parts: a request can name a million commands, each with hundreds of bytes of description. */
function describeNamed(
  names: readonly Buffer[],
  reply: ReplyWriter,
  commands: CommandTable,
): LongReply {
  let at = 0;
  // biome-ignore lint/correctness/useYield: other long replies call a store
  return function* () {
    while (at < names.length && reply.length <= OUTPUT_BYTES_MAX) {
      const command = findNamed(commands, names[at++]);
      if (command === undefined) reply.null();
      else writeInfo(reply, command);
    }
    return at < names.length;
  };
}

const docs: Command = {
  ...inServer('command|docs [name ...]'),
  summary: 'Returns summaries of the named commands, or of all.',
  run(request, { reply, commands }) {
    const named =
      request.length === 2
        ? commands.all
        : request.slice(2).map((name) => findNamed(commands, name));
    writeDocs(
      reply,
      [...new Set(named)].filter((command) => command !== undefined),
    );
  },
};

const list: Command = {
  ...inServer('command|list [FILTERBY PATTERN pattern]'),
  summary: 'Returns the names of the commands, also FILTERBY PATTERN pattern.',
  run([, , ...words], { reply, commands }) {
    const matches = parseFilter(words);
    const names = commands.all
      .flatMap(({ name, subcommands = [] }) => [name, ...subcommands.map((each) => each.name)])
      .filter((name) => matches(name));
    reply.array(names.length);
    for (const name of names) reply.bulk(name);
  },
};

/** Parses a filter. No command has a module or a category. */
function parseFilter(words: readonly Buffer[]): (name: string) => boolean {
  if (words.length === 0) return () => true;
  const [option, kind, value] = words;
  const isFilter = keyword(option) === 'FILTERBY' && words.length === 3;
  if (isFilter && keyword(kind) === 'PATTERN') {
    const glob = new Glob(value, { ignoreCase: true });
    return (name) => glob.matches(Buffer.from(name));
  }
  if (isFilter && (keyword(kind) === 'MODULE' || keyword(kind) === 'ACLCAT')) return () => false;
  throw new ReplyError(SYNTAX_ERROR);
}

const getKeys: Command = {
  ...inServer('command|getkeys name argument [argument ...]'),
  summary: 'Returns the keys among the words of a command.',
  run([, , ...words], { reply, commands }) {
    const container = commands.find(words[0]);
    if (container === undefined) throw new ReplyError('ERR Invalid command specified');
    const command = subcommandOf(container, words[1]) ?? container;
    if (command.keys === undefined) {
      throw new ReplyError('ERR The command has no key arguments');
    }
    if (!hasArity(command, words.length)) {
      throw new ReplyError('ERR Invalid number of arguments specified for command');
    }
    const [first, last, step] = command.keys;
    const end = last < 0 ? words.length + last : last;
    const keys = words.filter((_, at) => at >= first && at <= end && (at - first) % step === 0);
    reply.array(keys.length);
    for (const key of keys) reply.bulk(key);
  },
};

export const command = container({
  ...inServer('command [subcommand ...]'),
  summary: 'Describes the commands of this server.',
  subcommands: [count, docs, getKeys, info, list],
  run(_request, { reply, commands }) {
    writeAll(reply, commands);
  },
});

/** Finds a command, or a subcommand such as `config|get`. */
function findNamed(commands: CommandTable, name: Buffer): Command | undefined {
  const bar = name.indexOf('|');
  if (bar < 0) return commands.find(name);
  const container = commands.find(name.subarray(0, bar));
  return container && subcommandOf(container, name.subarray(bar + 1));
}

function writeAll(reply: ReplyWriter, commands: CommandTable): void {
  reply.array(commands.all.length);
  for (const each of commands.all) writeInfo(reply, each);
}

/** Writes the ten elements of Redis 7. Tips and key specifications stay empty. */
function writeInfo(reply: ReplyWriter, command: Command): void {
  const [first, last, step] = command.keys ?? [0, 0, 0];
  const subcommands = command.subcommands ?? [];
  reply.array(10);
  reply.bulk(command.name);
  reply.integer(command.arity);
  writeNames(reply, command.flags);
  reply.integer(first);
  reply.integer(last);
  reply.integer(step);
  writeNames(reply, categories(command));
  reply.array(0);
  reply.array(0);
  reply.array(subcommands.length);
  for (const subcommand of subcommands) writeInfo(reply, subcommand);
}

function writeNames(reply: ReplyWriter, names: readonly string[]): void {
  reply.set(names.length);
  for (const name of names) reply.simple(name);
}

/** The ACL categories of Redis. */
function categories({ flags, group, keys }: Command): string[] {
  const found = flags.includes('fast') ? ['@fast'] : ['@slow'];
  if (keys !== undefined && flags.includes('readonly')) found.push('@read');
  if (flags.includes('write')) found.push('@write');
  if (['bitmap', 'connection', 'pubsub', 'string'].includes(group)) found.push(`@${group}`);
  if (group === 'transactions') found.push('@transaction');
  if (group === 'generic') found.push('@keyspace');
  return found;
}

function writeDocs(reply: ReplyWriter, commands: readonly Command[]): void {
  reply.map(commands.length);
  for (const { name, summary, group, subcommands } of commands) {
    reply.bulk(name);
    reply.map(subcommands === undefined ? 2 : 3);
    reply.bulk('summary');
    reply.bulk(summary);
    reply.bulk('group');
    reply.bulk(group);
    if (subcommands === undefined) continue;
    reply.bulk('subcommands');
    writeDocs(reply, subcommands);
  }
}
