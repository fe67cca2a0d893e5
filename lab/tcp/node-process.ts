/** A memory node in a process of its own. */
import { startMemoryNode } from '../../src/store/servers/memory-node.ts';

const node = await startMemoryNode({ port: 0, size: Number(process.argv[2]) });
process.send?.(node.port);
process.on('message', () => {
  const { user, system } = process.cpuUsage();
  process.send?.(user + system);
});
process.on('disconnect', () => process.exit());
