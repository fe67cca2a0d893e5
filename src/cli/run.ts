import { parseArgs } from 'node:util';
import { type CAC, type Command as CacCommand, cac } from 'cac';
import type { Command, OptionSpecs, OptionValues, Program } from './command.ts';
import type { Context } from './context.ts';
import { describeFailure, EXIT, UsageError } from './failures.ts';
import { printable, styleFor } from './terminal/style.ts';

/** Runs one command line and returns the exit code. Throws nothing. */
export async function run(
  words: readonly string[],
  context: Context,
  program: Program,
): Promise<number> {
  try {
    return await dispatch(words, context, program);
  } catch (error) {
    return report(error, words, context, program);
  }
}

async function dispatch(
  words: readonly string[],
  context: Context,
  program: Program,
): Promise<number> {
  const help = helpFor(program, context.version);
  const request = parse(words, program.commands, help.argumentsOf);
  if (request.kind === 'help') {
    help.print(request.command);
    return EXIT.ok;
  }
  if (request.kind === 'version') {
    await context.stdout.line(`${program.name} ${context.version}`);
    return EXIT.ok;
  }
  const { command, args, options } = request;
  try {
    return await command.run(context, args, options as OptionValues<OptionSpecs>);
  } catch (error) {
    if (error instanceof UsageError) error.example ??= command.examples[0];
    throw error;
  }
}

function report(
  error: unknown,
  words: readonly string[],
  context: Context,
  { name: program, commands }: Program,
): number {
  const { exitCode, message } = describeFailure(error);
  if (message === '') return exitCode;
  const style = styleFor(context.stderr.isTTY, context.env);
  const say = (text: string) => context.stderr.writeNow(`${text}\n`);
  say(`${style.red(`${program}:`)} ${printable(message)}`);
  if (error instanceof UsageError) {
    if (error.example !== undefined) say(`for example: npx ${program} ${error.example}`);
    const first = words.find((word) => !word.startsWith('-'));
    const known = commands.some(({ name }) => name === first);
    say(`see: npx ${program} ${known ? `${first} ` : ''}--help`);
  }
  if (debugging(words, context.env)) {
    say(error instanceof Error ? (error.stack ?? String(error)) : String(error));
  } else if (exitCode === EXIT.internal) {
    say('run it again with --debug for the stack, and please report it');
  }
  return exitCode;
}

function debugging(words: readonly string[], env: NodeJS.ProcessEnv): boolean {
  const { STEPWELL_DEBUG: wish } = env;
  return words.includes('--debug') || (wish !== undefined && wish !== '' && wish !== '0');
}

interface Help {
  argumentsOf(command: Command): ArgumentSpec[];
  /** Prints the help of one command, or the overview. */
  print(command?: Command): void;
}

/** Declares the commands to cac, which formats the help and parses the notation of arguments. */
export function helpFor({ name, commands, examples }: Program, version: string): Help {
  const cli = cac(name);
  const declared = new Map(commands.map((command) => [command, declare(cli, command)]));
  cli.usage('<command> [options]');
  for (const example of examples) cli.example(`  $ npx ${name} ${example}`);
  cli.option('--debug', 'Show the stack of an internal error (or set STEPWELL_DEBUG=1)');
  cli.help((sections) => {
    const details = [...declared].find(([, shown]) => shown === cli.matchedCommand)?.[0].details;
    if (details !== undefined) sections.splice(2, 0, { body: details });
    // This section only repeats the list of commands.
    const shown = sections.filter((section) => !section.title?.startsWith('For more info'));
    return shown.map(({ title, body }) => ({ title, body: body.replaceAll(/ +$/gm, '') }));
  });
  cli.version(version);
  return {
    argumentsOf: (command) =>
      declared.get(command)!.args.map(({ value, required, variadic }) => {
        return { name: value, required, variadic };
      }),
    print: (command) => {
      cli.unsetMatchedCommand();
      if (command !== undefined) cli.matchedCommand = declared.get(command);
      cli.outputHelp();
    },
  };
}

function declare(cli: CAC, command: Command): CacCommand {
  const declared = cli.command(`${command.name} ${command.arguments}`.trim(), command.summary);
  for (const [name, { about, value, short }] of Object.entries(command.options)) {
    const flags = short === undefined ? `--${name}` : `-${short}, --${name}`;
    declared.option(value === undefined ? flags : `${flags} <${value}>`, about);
  }
  for (const example of command.examples) declared.example(`  $ npx ${cli.name} ${example}`);
  return declared;
}

export type Request =
  | { kind: 'help'; command?: Command }
  | { kind: 'version' }
  | { kind: 'run'; command: Command; args: string[]; options: Record<string, unknown> };

interface ArgumentSpec {
  name: string;
  required: boolean;
  variadic: boolean;
}

type Token = NonNullable<ReturnType<typeof parseArgs>['tokens']>[number];
type OptionToken = Extract<Token, { kind: 'option' }>;

const GLOBAL_OPTIONS: OptionSpecs = {
  help: { about: '', short: 'h' },
  version: { about: '', short: 'v' },
  debug: { about: '' },
};

/**
 * Parses a command line with Node's parser. That of cac turns the key `007` into the number 7, and
 * drops the word `-`.
 */
export function parse(
  words: readonly string[],
  commands: readonly Command[],
  argumentsOf: (command: Command) => ArgumentSpec[],
): Request {
  const named = words.findIndex((word) => !word.startsWith('-'));
  const before = readWords(named === -1 ? words : words.slice(0, named), GLOBAL_OPTIONS);
  if (before.options.version) return { kind: 'version' };
  if (named === -1) return { kind: 'help' };
  if (words[named] === 'help') return helpRequest(words[named + 1], commands);
  const command = find(words[named], commands);
  const specs = { ...command.options, ...GLOBAL_OPTIONS };
  const { args, options } = readWords(words.slice(named + 1), specs, command);
  if (before.options.help || options.help) return { kind: 'help', command };
  checkArguments(command, args, argumentsOf(command));
  return { kind: 'run', command, args, options };
}

/** `stepwell help` and `stepwell help get`. */
function helpRequest(name: string | undefined, commands: readonly Command[]): Request {
  return name === undefined ? { kind: 'help' } : { kind: 'help', command: find(name, commands) };
}

function find(name: string, commands: readonly Command[]): Command {
  const command = commands.find((candidate) => candidate.name === name);
  if (command !== undefined) return command;
  const names = commands.map((candidate) => candidate.name);
  throw new UsageError(`unknown command '${name}'${suggestion(nearest(name, names))}`);
}

function readWords(words: readonly string[], specs: OptionSpecs, command?: Command) {
  const { tokens, positionals } = parseArgs({
    args: [...words],
    options: Object.fromEntries(
      Object.entries(specs).map(([name, { value, short }]) => {
        const type = value === undefined ? ('boolean' as const) : ('string' as const);
        return [name, short === undefined ? { type } : { type, short }];
      }),
    ),
    allowPositionals: true,
    strict: false,
    tokens: true,
  });
  const options: Record<string, unknown> = {};
  for (const [name, spec] of Object.entries(specs)) {
    if (spec.value === undefined) options[name] = false;
  }
  for (const token of tokens) {
    if (token.kind === 'option') options[token.name] = optionValue(token, specs, command);
  }
  return { args: positionals, options };
}

function optionValue(token: OptionToken, specs: OptionSpecs, command?: Command): unknown {
  const spec = Object.hasOwn(specs, token.name) ? specs[token.name] : undefined;
  const example = command?.examples[0];
  if (spec === undefined) throw new UsageError(unknownOption(token, specs, command), example);
  if (spec.value === undefined) {
    if (token.value === undefined) return true;
    throw new UsageError(`option ${token.rawName} takes no value`, example);
  }
  const { value } = token;
  // `--store --json` is more likely a forgotten value than a store named --json.
  const forgotten = !token.inlineValue && value !== '-' && value?.startsWith('-');
  if (value === undefined || forgotten) {
    throw new UsageError(`option ${token.rawName} needs a value (${spec.value})`, example);
  }
  try {
    return spec.read === undefined ? value : spec.read(value);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    throw new UsageError(`${token.rawName}: ${error.message}`, example);
  }
}

function unknownOption(token: OptionToken, specs: OptionSpecs, command?: Command): string {
  const names = Object.keys(specs).map((name) => `--${name}`);
  const where = command === undefined ? '' : ` for '${command.name}'`;
  const near = suggestion(nearest(token.rawName, names));
  const dash = near === '' ? "; write -- before words that begin with '-'" : near;
  return `unknown option ${token.rawName}${where}${dash}`;
}

function suggestion(near: string | undefined): string {
  return near === undefined ? '' : `; did you mean ${near}?`;
}

/** Names of arguments that are a pool's URL. */
const POOLS: readonly string[] = ['url', 'from', 'to'];

function checkArguments(command: Command, args: string[], specs: ArgumentSpec[]): void {
  const example = command.examples[0];
  const missing = specs.find((spec, at) => spec.required && args[at] === undefined);
  if (missing !== undefined) {
    throw new UsageError(`'${command.name}' needs <${missing.name}>`, example);
  }
  const isInProcess = (spec: ArgumentSpec, at: number) =>
    spec.required && POOLS.includes(spec.name) && args[at].startsWith('memory:');
  if (specs.some(isInProcess)) {
    const why = 'a memory: pool lives inside one process; name a shm:NAME or file:PATH pool';
    throw new UsageError(why, example);
  }
  const variadic = specs.some((spec) => spec.variadic);
  if (!variadic && args.length > specs.length) {
    const extra = args.slice(specs.length).map((word) => `'${word}'`);
    throw new UsageError(`'${command.name}' has no use for ${extra.join(', ')}`, example);
  }
}

/** The name that the user probably meant, if one is close enough. */
export function nearest(word: string, names: readonly string[]): string | undefined {
  let best: string | undefined;
  let bestDistance = Math.max(2, Math.floor(word.length / 3)) + 1;
  for (const name of names) {
    const distance = name.startsWith(word) && word.length > 1 ? 1 : editDistance(word, name);
    if (distance < bestDistance) {
      best = name;
      bestDistance = distance;
    }
  }
  // A name that shares no character with the word is not a guess, however short both are.
  return bestDistance < word.length ? best : undefined;
}

/** The Levenshtein distance of two words. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const replace = row[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(replace, row[j] + 1, next[j - 1] + 1));
    }
    row = next;
  }
  return row[b.length];
}
