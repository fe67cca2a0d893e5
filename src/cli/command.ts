import type { Context } from './context.ts';

/** An option that carries a value, read by `read` (default: the text as it is). */
export interface ValueOption<T = unknown> {
  about: string;
  /** Placeholder for the value in the help. */
  value: string;
  read?: (text: string) => T;
  short?: string;
}

export interface FlagOption {
  about: string;
  value?: undefined;
  short?: string;
}

export type OptionSpecs = Record<string, ValueOption | FlagOption>;

/** The options as a command sees them: flags are booleans, values are read or absent. */
export type OptionValues<S extends OptionSpecs> = {
  [K in keyof S]: S[K] extends FlagOption
    ? boolean
    : S[K] extends { read: (text: string) => infer T }
      ? T | undefined
      : string | undefined;
};

export interface Command<S extends OptionSpecs = OptionSpecs> {
  name: string;
  /**
   * In cac's notation: `<url> <key> [value]`, `<...keys>`. A required `<url>` must be of a pool
   * that other processes can open, so not `memory:`.
   */
  arguments: string;
  summary: string;
  /** Shown by --help below the summary. */
  details?: string;
  options: S;
  /** Complete command lines without the program's name; the first also illustrates errors. */
  examples: readonly string[];
  /** Returns the exit code. `args` holds the words in order, at least the required ones. */
  run(context: Context, args: string[], options: OptionValues<S>): Promise<number>;
}

/** A program that a user starts: its name and its commands, in the order of the help. */
export interface Program {
  name: string;
  commands: readonly Command[];
  /** Complete command lines without the program's name, for the overview. */
  examples: readonly string[];
}

/** Infers the types of the options, then drops them: the parser guarantees them. */
export function defineCommand<const S extends OptionSpecs>(command: Command<S>): Command {
  return command as unknown as Command;
}
