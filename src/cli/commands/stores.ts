import { defineCommand } from '../command.ts';
import { EXIT } from '../failures.ts';
import { formatCount, formatSize } from '../sizes.ts';
import { sharedUrl } from '../store-options.ts';
import { styleFor } from '../terminal/style.ts';
import { table } from '../terminal/table.ts';

const EXAMPLES = ['stores shm:demo', 'stores shm:demo --json'];

export const stores = defineCommand({
  name: 'stores',
  arguments: '<url>',
  summary: 'List the stores of a pool: index, records and memory',
  options: {
    json: { about: 'Print the list as JSON' },
  },
  examples: EXAMPLES,
  async run(context, [url], { json }) {
    sharedUrl(url, EXAMPLES[0]);
    const library = await context.library();
    const report = await library.inspect(url, { client: 'stepwell stores' });
    const found = report.stores.map(({ name, index, state, records, memory }) => {
      const bytes = memory.records + memory.subtables + memory.directory;
      return { name, index, state, records, bytes };
    });
    if (json) {
      await context.stdout.line(JSON.stringify(found, null, 2));
      return EXIT.ok;
    }
    const text = table(
      [
        { head: 'NAME' },
        { head: 'INDEX' },
        { head: 'STATE' },
        { head: 'RECORDS', align: 'right' },
        { head: 'MEMORY', align: 'right' },
      ],
      found.map(({ name, index, state, records, bytes }) => {
        return [name, index, state, formatCount(records), formatSize(bytes)];
      }),
      styleFor(context.stdout.isTTY, context.env),
    );
    await context.stdout.line(found.length === 0 ? 'no stores' : text);
    return EXIT.ok;
  },
});
