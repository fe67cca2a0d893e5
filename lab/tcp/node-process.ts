/** A memory node process; over UCX if it is given transports. */
import { startMemoryNode } from '../../src/store/servers/memory-node.ts';

const [, , size, transports] = process.argv;
const ucx = transports === undefined ? {} : ({ fabric: 'ucx', transports } as const);
const node = await startMemoryNode({ port: 0, size: Number(size), ...ucx });
process.send?.(node.port);
process.on('message', (question) => {
  if (question === 'memory') {
    const { heapUsed: heap, external } = process.memoryUsage();
    process.send?.({ heap, external });
    return;
  }
  const { user, system } = process.cpuUsage();
  process.send?.(user + system);
});
process.on('disconnect', () => process.exit());
