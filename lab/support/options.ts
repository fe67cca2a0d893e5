import { parseArgs } from 'node:util';

interface IntegerOption {
  kind: 'integer';
  fallback: number;
  minimum?: number;
  help: string;
}
interface TextOption {
  kind: 'text';
  fallback: string;
  help: string;
}
interface FlagOption {
  kind: 'flag';
  help: string;
}
type Option = IntegerOption | TextOption | FlagOption;
type OptionSpec = Readonly<Record<string, Option>>;

type ValueOf<O extends Option> = O extends IntegerOption
  ? number
  : O extends TextOption
    ? string
    : boolean;
export type Options<S extends OptionSpec> = { -readonly [K in keyof S]: ValueOf<S[K]> };

/** The command line is wrong, or asks for help (`asked`): print the message and stop. */
export class UsageError extends Error {
  readonly asked: boolean;

  constructor(text: string, asked = false) {
    super(text);
    this.name = 'UsageError';
    this.asked = asked;
  }
}

/** Parses `argv` as `spec` says. Absent options get their fallbacks. */
export function parseOptions<S extends OptionSpec>(
  command: string,
  spec: S,
  argv: readonly string[],
): Options<S> {
  const raw = parseRaw(command, spec, argv);
  if (raw.help === true) throw new UsageError(usage(command, spec), true);
  const parsed: Record<string, number | string | boolean> = {};
  for (const [name, option] of Object.entries(spec)) {
    const given = raw[name];
    if (option.kind === 'flag') parsed[name] = given === true;
    else if (option.kind === 'text') parsed[name] = String(given ?? option.fallback);
    else parsed[name] = toInteger(name, option, given);
  }
  return parsed as Options<S>;
}

function parseRaw(command: string, spec: OptionSpec, argv: readonly string[]) {
  const options: Record<string, { type: 'string' | 'boolean' }> = { help: { type: 'boolean' } };
  for (const [name, option] of Object.entries(spec)) {
    options[name] = { type: option.kind === 'flag' ? 'boolean' : 'string' };
  }
  try {
    const { values } = parseArgs({ args: [...argv], options, strict: true });
    return values as Record<string, string | boolean | undefined>;
  } catch (error) {
    throw new UsageError(`${(error as Error).message}\n\n${usage(command, spec)}`);
  }
}

function toInteger(name: string, option: IntegerOption, given: string | boolean | undefined) {
  if (given === undefined) return option.fallback;
  const number = Number(String(given).replaceAll('_', ''));
  const minimum = option.minimum ?? 0;
  if (!Number.isSafeInteger(number) || number < minimum) {
    throw new UsageError(`--${name} needs an integer of at least ${minimum}, got '${given}'`);
  }
  return number;
}

function usage(command: string, spec: OptionSpec): string {
  const rows = Object.entries(spec).map(([name, option]) => {
    const argument = option.kind === 'flag' ? '' : option.kind === 'integer' ? ' N' : ' TEXT';
    const given = option.kind === 'flag' || option.fallback === '' ? '' : ` (${option.fallback})`;
    return [`  --${name}${argument}`, `${option.help}${given}`] as const;
  });
  const width = Math.max(...rows.map(([left]) => left.length)) + 2;
  return [`Usage: ${command} [options]`, ...rows.map(([l, r]) => l.padEnd(width) + r)].join('\n');
}
