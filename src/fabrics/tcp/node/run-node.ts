import { openSync } from 'node:fs';
import { parentPort } from 'node:worker_threads';
import { MappedSource } from '../../shared/mapped-source.ts';
import { MemorySource } from '../../shared/memory-source.ts';
import { failureOf } from '../../start-worker.ts';
import type { DataPath } from './data-path.ts';
import { NodeMemory } from './node-memory.ts';
import { NodeServer } from './node-server.ts';
import type { ThreadMessage, ThreadOptions } from './node-thread.ts';

/** Runs a memory node in this thread until it is told to stop; see node-thread.ts. */
export async function runNode(
  { place, regionBytes, ...options }: ThreadOptions,
  startDataPath?: () => Promise<DataPath>,
): Promise<void> {
  let dataPath: DataPath | undefined;
  try {
    dataPath = await startDataPath?.();
    const memory = openMemory(place, regionBytes);
    const path = dataPath && { dataPath };
    const server = await NodeServer.listen({ ...options, memory, ...path });
    parentPort?.once('message', async () => {
      await server.close();
      parentPort?.close();
    });
    send({ kind: 'listening', port: server.port });
  } catch (error) {
    await dataPath?.close();
    send(failureOf(error));
  }
}

function openMemory(place: ThreadOptions['place'], regionBytes: number): NodeMemory {
  if (place.kind === 'memory') {
    return new NodeMemory(new MemorySource(place.buffers), place.buffers.length, regionBytes);
  }
  const source = new MappedSource(place.path, openSync(place.path, 'r+'), regionBytes);
  return new NodeMemory(source, place.regions, regionBytes);
}

function send(message: ThreadMessage): void {
  parentPort?.postMessage(message);
}
