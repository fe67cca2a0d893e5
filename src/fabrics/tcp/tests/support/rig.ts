import { connect, type Socket } from 'node:net';
import { type Batch, type RemoteFabric, Scratch } from '../../../../verbs/index.ts';
import { MemorySource } from '../../../shared/memory-source.ts';
import { SharedFabric } from '../../../shared/shared-fabric.ts';
import type { Credentials } from '../../client/queue-pair.ts';
import { TcpFabric } from '../../client/tcp-fabric.ts';
import { NodeMemory } from '../../node/node-memory.ts';
import { type NodeOptions, NodeServer } from '../../node/node-server.ts';

export interface Scope {
  after(action: () => void | Promise<void>): void;
}

export const REGION_BYTES = 1024 * 1024;

/** A memory node in this process, and the same memory through the other door. */
export async function startNode(
  scope: Scope,
  options: Partial<NodeOptions> & { regions?: number } = {},
) {
  const { regions = 2, ...rest } = options;
  const source = MemorySource.allocate(regions, REGION_BYTES);
  const memory = new NodeMemory(source, regions, REGION_BYTES);
  const server = await NodeServer.listen({ memory, host: '127.0.0.1', port: 0, ...rest });
  scope.after(() => server.close());
  return { server, source, memory, local: new SharedFabric(source) };
}

export async function connectTo(
  scope: Scope,
  servers: readonly NodeServer[],
  credentials: Credentials = {},
): Promise<TcpFabric> {
  const endpoints = servers.map(({ port }) => ({ host: '127.0.0.1', port }));
  const fabric = await TcpFabric.connect(endpoints, credentials);
  scope.after(() => fabric.close());
  return fabric;
}

export function execute(fabric: RemoteFabric, batch: Batch): Promise<void> {
  return new Promise((resolve, reject) => {
    fabric.post(batch, {
      completed: (error) => (error === undefined ? resolve() : reject(error)),
    });
  });
}

/** A scratch with these 64-bit words. */
export function scratchOf(words: readonly bigint[], bytes = 8 * words.length): Scratch {
  const scratch = new Scratch(bytes);
  words.forEach((word, i) => {
    scratch.i64[i] = word;
  });
  return scratch;
}

/** A connection that speaks bytes, for saying what no client says. */
export async function rawConnection(scope: Scope, port: number): Promise<Socket> {
  const socket = connect({ host: '127.0.0.1', port });
  socket.on('error', () => {});
  scope.after(() => {
    socket.destroy();
  });
  await new Promise((resolve) => socket.once('connect', resolve));
  return socket;
}
