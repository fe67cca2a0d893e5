import { isRemote } from '../../store/remote/address.ts';
import type { MemoryNodeReport, MemoryNodesReport } from '../../store/remote/memory-nodes.ts';
import { defineCommand } from '../command.ts';
import { EXIT, UsageError } from '../failures.ts';
import { formatCount, formatSize, plural } from '../sizes.ts';
import { definedOnly, STORE_OPTION, storeNamed } from '../store-options.ts';
import { Progress } from '../terminal/progress.ts';
import { type Style, styleFor } from '../terminal/style.ts';
import { table } from '../terminal/table.ts';

const EXAMPLES = ['nodes tcp://a:7471,b:7471/users', 'nodes tcp://a:7471,b:7471/users --remove 2'];

export const nodes = defineCommand({
  name: 'nodes',
  arguments: '<url>',
  summary: 'Show what of a store is on which memory node, and move its index to others',
  details:
    '  A store with the index shard keeps each part of its tables on one node. --add and\n' +
    '  --remove name nodes of the pool, by number or HOST:PORT; parts that are elsewhere than\n' +
    '  they are to be are moved while clients go on. Run it again when it was interrupted.\n' +
    '  Records stay where they are: a node without parts is still needed.',
  options: {
    add: { value: 'NODE', about: 'Place parts of the index on this node too' },
    remove: { value: 'NODE', about: 'Place none on this node' },
    ...STORE_OPTION,
    json: { about: 'Print the report as JSON' },
  },
  examples: EXAMPLES,
  async run(context, [url], { add, remove, store, json }) {
    if (!isRemote(url)) throw new UsageError('only a tcp: pool has memory nodes', EXAMPLES[0]);
    const { memoryNodes } = await import('../../store/remote/memory-nodes.ts');
    const progress = new Progress(context, 'moving', 'steps');
    const report = await memoryNodes(url, {
      ...storeNamed('nodes', store),
      ...definedOnly({ add: add?.split(','), remove: remove?.split(',') }),
      onProgress: (done, total) => progress.update(done, total),
      ...((add ?? remove) ? { signal: context.signal } : {}),
    });
    progress.clear();
    const style = styleFor(context.stdout.isTTY, context.env);
    await context.stdout.line(json ? JSON.stringify(report, null, 2) : describe(report, style));
    return EXIT.ok;
  },
});

function describe({ nodes: all, index, store, moved }: MemoryNodesReport, style: Style): string {
  const placed = all.some((node) => node.parts !== undefined);
  const columns = ['NODE', 'ADDRESS', ...(placed ? ['PLACED', 'PARTS', 'TABLES'] : [])];
  const heads = [...columns, 'TABLE CHUNKS', 'RECORD CHUNKS', 'SPANS'].map((head) => ({
    head,
    ...(head === 'ADDRESS' || head === 'PLACED' ? {} : { align: 'right' as const }),
  }));
  const rows = all.map((node) => [
    String(node.number),
    node.address,
    ...(placed ? placement(node) : []),
    ...[node.memory.tables, node.memory.records, node.memory.spans].map(formatSize),
  ]);
  const what = moved === 0 ? [] : [`${plural(moved, 'part')} moved`];
  return [`store ${store}, index ${index}`, table(heads, rows, style), ...what].join('\n');
}

function placement({ placed, parts = 0, tables = 0 }: MemoryNodeReport): string[] {
  return [placed ? 'yes' : 'no', formatCount(parts), formatSize(tables)];
}
