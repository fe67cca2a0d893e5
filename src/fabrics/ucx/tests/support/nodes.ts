import { after } from 'node:test';
import { hasCode, StepwellError } from '../../../../errors.ts';
import { destroy } from '../../../../store/open.ts';
import {
  type MemoryNodeOptions,
  type RunningNode,
  startMemoryNode,
} from '../../../../store/servers/memory-node.ts';
import { endAfter, type Scope } from '../../../../store/tests/support/pools.ts';
import { loadUcx } from '../../binding/library.ts';

const NODE_BYTES = 64 * 2 ** 20;

/** Why tests over UCX are left out here, if they are: never in CI, which installs it. */
export function ucxMissing(): string | false {
  try {
    loadUcx();
    return false;
  } catch (error) {
    if (process.env.CI || !(error instanceof StepwellError)) throw error;
    return error.message;
  }
}

/** A memory node over UCX on this machine. */
export function startUcxNode(
  transports: string,
  options: MemoryNodeOptions = {},
): Promise<RunningNode> {
  return startMemoryNode({ port: 0, size: NODE_BYTES, ...options, fabric: 'ucx', transports });
}

/**
 * Memory nodes over UCX for one test after the other, which are made blank before each: two threads
 * and the library take longer to start than a test to run.
 */
export function ucxNodes(transports: string) {
  const idle: { url: string; count: number }[] = [];
  const all: RunningNode[] = [];
  after(() => Promise.all(all.map((node) => node.stop())));
  const start = async (count: number) => {
    const nodes: RunningNode[] = [];
    while (nodes.length < count) nodes.push(await startUcxNode(transports));
    all.push(...nodes);
    return { url: `ucx://${nodes.map(({ port }) => `127.0.0.1:${port}`).join(',')}`, count };
  };
  return async (scope: Scope, count: number): Promise<{ url: string }> => {
    const known = idle.findIndex((one) => one.count === count);
    const nodes = known < 0 ? await start(count) : idle.splice(known, 1)[0];
    endAfter(scope, nodes, (ended) => {
      idle.push(ended);
    });
    // Now and not when the last test ended: a store that it did not wait for may have come late.
    if (known >= 0) await destroy(nodes.url, { force: true }).catch(unlessBlank);
    return nodes;
  };
}

function unlessBlank(error: unknown): void {
  if (!hasCode(error, 'SW_POOL_NOT_FOUND')) throw error;
}
