import { wrongNumberOfArguments } from '../../arguments.ts';
import { type Command, signature } from '../../command.ts';

type Container = Omit<Command, 'run' | 'subcommands'> & {
  readonly subcommands: readonly Command[];
  /** Runs the command without a subcommand. By default that is an error. */
  readonly run?: Command['run'];
};

/** A command that only leads to its subcommands, with a HELP that lists them. */
export function container(command: Container): Command {
  const help: Command = {
    ...signature(`${command.name}|help`, command.group, 'loading', 'stale'),
    summary: 'Lists the subcommands.',
    run(_request, { reply }) {
      const lines = helpLines(command.name, subcommands);
      reply.array(lines.length);
      for (const line of lines) reply.simple(line);
    },
  };
  const subcommands = [...command.subcommands, help];
  const refuse = () => {
    throw wrongNumberOfArguments(command.name);
  };
  return { ...command, subcommands, run: command.run ?? refuse };
}

function helpLines(name: string, subcommands: readonly Command[]): string[] {
  const title = `${name.toUpperCase()} <subcommand> [<arg> ...]. Subcommands are:`;
  return [
    title,
    ...subcommands.flatMap(({ name, summary }) => [
      name.slice(name.indexOf('|') + 1).toUpperCase(),
      `    ${summary}`,
    ]),
  ];
}
