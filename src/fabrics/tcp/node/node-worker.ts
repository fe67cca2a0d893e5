/** The thread of a memory node: see node-thread.ts. */
import { openSync } from 'node:fs';
import { parentPort, workerData } from 'node:worker_threads';
import { MappedSource } from '../../shared/mapped-source.ts';
import { MemorySource } from '../../shared/memory-source.ts';
import { NodeMemory } from './node-memory.ts';
import { NodeServer } from './node-server.ts';
import type { ThreadMessage, ThreadOptions } from './node-thread.ts';

const { place, regionBytes, ...options } = workerData as ThreadOptions;

function openMemory(): NodeMemory {
  if (place.kind === 'memory') {
    return new NodeMemory(new MemorySource(place.buffers), place.buffers.length, regionBytes);
  }
  const source = new MappedSource(place.path, openSync(place.path, 'r+'), regionBytes);
  return new NodeMemory(source, place.regions, regionBytes);
}

function send(message: ThreadMessage): void {
  parentPort?.postMessage(message);
}

try {
  const server = await NodeServer.listen({ ...options, memory: openMemory() });
  parentPort?.once('message', async () => {
    await server.close();
    parentPort?.close();
  });
  send({ kind: 'listening', port: server.port });
} catch (error) {
  const { code, message } = error as { code?: string; message: string };
  send({ kind: 'failed', code, message });
}
