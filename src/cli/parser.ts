import { parseArgs } from 'node:util';
import type { Command, OptionSpecs } from './command.ts';
import { UsageError } from './failures.ts';
import { nearest } from './nearest.ts';

export type Request =
  | { kind: 'help'; command?: Command }
  | { kind: 'version' }
  | { kind: 'run'; command: Command; args: string[]; options: Record<string, unknown> };

export interface ArgumentSpec {
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
 * What a command line asks for. Node's own reader takes the words apart, not cac's: that one makes
 * the number 7 of the key `007`, and drops the word `-`.
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

/** `stepwell help` and `stepwell help get`, as many programs have it. */
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
  // `--store --json` is a forgotten value far more often than a store called --json.
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

function checkArguments(command: Command, args: string[], specs: ArgumentSpec[]): void {
  const example = command.examples[0];
  const missing = specs.find((spec, at) => spec.required && args[at] === undefined);
  if (missing !== undefined) {
    throw new UsageError(`'${command.name}' needs <${missing.name}>`, example);
  }
  const variadic = specs.some((spec) => spec.variadic);
  if (!variadic && args.length > specs.length) {
    const extra = args.slice(specs.length).map((word) => `'${word}'`);
    throw new UsageError(`'${command.name}' has no use for ${extra.join(', ')}`, example);
  }
}
