import type { ClientThread } from './client-thread.ts';
import type { MemoryNode, Nic } from './nodes.ts';

/** Shares of the measured time in which a NIC's parts were busy. */
interface NicUse {
  messages: number;
  inbound: number;
  outbound: number;
}

interface MemoryNodeUse extends NicUse {
  atomics: number;
  calls: number;
}

/** Utilisation during a measurement: the resource nearest to 1 is the bottleneck. */
export interface MeasuredUse {
  ns: number;
  memoryNodes: MemoryNodeUse[];
  computeNodes: NicUse[];
  /** Mean over all client threads, and of the busiest one. */
  clientCpu: { mean: number; most: number };
}

interface Measured {
  readonly memoryNodes: readonly MemoryNode[];
  readonly computeNics: readonly Nic[];
  readonly threads: readonly ClientThread[];
}

export function measuredUse(network: Measured, ns: number): MeasuredUse {
  const ofNic = ({ messages, inbound, outbound }: Nic): NicUse => ({
    messages: messages.busyNs / ns,
    inbound: inbound.busyNs / ns,
    outbound: outbound.busyNs / ns,
  });
  const threads = network.threads.map(({ busyNs }) => busyNs / ns);
  return {
    ns,
    memoryNodes: network.memoryNodes.map(({ nic, atomics, cores }) => ({
      ...ofNic(nic),
      atomics: atomics.busyNs / ns,
      calls: cores.busyNs / (cores.count * ns),
    })),
    computeNodes: network.computeNics.map(ofNic),
    clientCpu: {
      mean: threads.reduce((sum, share) => sum + share, 0) / threads.length,
      most: threads.reduce((most, share) => Math.max(most, share), 0),
    },
  };
}
