import { type CAC, type Command as CacCommand, cac } from 'cac';
import type { Command, Program } from './command.ts';
import type { ArgumentSpec } from './parser.ts';

export interface Help {
  argumentsOf(command: Command): ArgumentSpec[];
  /** Prints the help of one command, or the overview. */
  print(command?: Command): void;
}

/** Declares the commands to cac, which lays out the help and reads the notation of arguments. */
export function helpFor({ name, commands, examples }: Program, version: string): Help {
  const cli = cac(name);
  const declared = new Map(commands.map((command) => [command, declare(cli, command)]));
  cli.usage('<command> [options]');
  for (const example of examples) cli.example(`  $ npx ${name} ${example}`);
  cli.option('--debug', 'Show the stack of an internal error (or set STEPWELL_DEBUG=1)');
  cli.help((sections) => {
    const details = [...declared].find(([, shown]) => shown === cli.matchedCommand)?.[0].details;
    if (details !== undefined) sections.splice(2, 0, { body: details });
    // One line per command that only repeats the list above it.
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
