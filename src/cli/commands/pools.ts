import { defineCommand } from '../command.ts';
import { EXIT } from '../failures.ts';
import { formatSize } from '../sizes.ts';
import { styleFor } from '../terminal/style.ts';
import { table } from '../terminal/table.ts';

export const pools = defineCommand({
  name: 'pools',
  arguments: '',
  summary: 'List the shm: pools of this machine: size, clients and stores',
  options: {
    json: { about: 'Print the list as JSON' },
  },
  examples: ['pools', 'pools --json'],
  async run(context, _words, { json }) {
    const found = (await context.listPools())();
    if (json) {
      await context.stdout.line(JSON.stringify(found, null, 2));
      return EXIT.ok;
    }
    const rows = found.map((pool) => {
      const { url, bytes, sizeMax, clients, clientsMax, stores, problem } = pool;
      if (problem !== undefined) return [url, formatSize(bytes), '', '', problem];
      const attached = `${clients} of ${clientsMax}`;
      return [url, formatSize(bytes), formatSize(sizeMax), attached, stores.join(', ')];
    });
    const text = table(
      [
        { head: 'POOL' },
        { head: 'TAKES', align: 'right' },
        { head: 'AT MOST', align: 'right' },
        { head: 'CLIENTS', align: 'right' },
        { head: 'STORES' },
      ],
      rows,
      styleFor(context.stdout.isTTY, context.env),
    );
    await context.stdout.line(found.length === 0 ? 'no pools' : text);
    return EXIT.ok;
  },
});
