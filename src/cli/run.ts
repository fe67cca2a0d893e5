import type { OptionSpecs, OptionValues, Program } from './command.ts';
import type { Context } from './context.ts';
import { describeFailure, EXIT, UsageError } from './failures.ts';
import { helpFor } from './help.ts';
import { parse } from './parser.ts';
import { printable, styleFor } from './terminal/style.ts';

/** Runs one command line to its end and returns the exit code; throws nothing. */
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
  return await request.command.run(
    context,
    request.args,
    request.options as OptionValues<OptionSpecs>,
  );
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
