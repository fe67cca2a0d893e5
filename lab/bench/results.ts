import { median, type Spread, spread } from '../support/statistics.ts';
import type { PeerName } from './protocol.ts';

/** One timed run. Round 0 is a warm-up and is dropped. */
export interface Sample {
  workload: string;
  peer: PeerName;
  round: number;
  processes: number;
  operations: number;
  nanoseconds: number;
}

interface Summary {
  workload: string;
  peer: PeerName;
  processes: number;
  rounds: number;
  operations: number;
  /** Time of one operation within its process. */
  nanosecondsPerOperation: Spread;
  /** All processes together. */
  operationsPerSecond: number;
}

export function throughput(sample: Sample): number {
  return (sample.operations / sample.nanoseconds) * 1e9;
}

export function summarize(samples: readonly Sample[]): Summary[] {
  const groups = new Map<string, Sample[]>();
  for (const sample of samples) {
    const key = `${sample.workload}\n${sample.peer}`;
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [sample]);
    else group.push(sample);
  }
  return [...groups.values()].map((group) => {
    const { workload, peer, processes, operations } = group[0];
    const latency = (s: Sample) => (s.nanoseconds * s.processes) / s.operations;
    return {
      workload,
      peer,
      processes,
      rounds: group.length,
      operations,
      nanosecondsPerOperation: spread(group.map(latency)),
      operationsPerSecond: median(group.map(throughput)),
    };
  });
}

/** One side of a ratio. */
export interface Side {
  workload: string;
  peer: PeerName;
}

/** A ratio of throughputs that the project wants. */
export interface Wanted {
  claim: string;
  above: Side;
  below: Side;
  bound: number;
  direction: 'at least' | 'at most';
}

export interface Verdict {
  claim: string;
  wanted: string;
  ratio: Spread | undefined;
  verdict: 'reached' | 'not reached' | 'not measured';
}

/**
 * The median over rounds of the ratio within a round. Both sides of a round run close together, so
 * a disturbance of the machine affects both.
 */
export function judge(wanted: Wanted, samples: readonly Sample[]): Verdict {
  const { claim, bound, direction } = wanted;
  const text = `${direction} ${bound}x`;
  const above = byRound(samples, wanted.above);
  const below = byRound(samples, wanted.below);
  const ratios: number[] = [];
  for (const [round, sample] of above) {
    const other = below.get(round);
    if (other !== undefined) ratios.push(throughput(sample) / throughput(other));
  }
  if (ratios.length === 0) {
    return { claim, wanted: text, ratio: undefined, verdict: 'not measured' };
  }
  const ratio = spread(ratios);
  const reached = direction === 'at least' ? ratio.median >= bound : ratio.median <= bound;
  return { claim, wanted: text, ratio, verdict: reached ? 'reached' : 'not reached' };
}

function byRound(samples: readonly Sample[], side: Side): Map<number, Sample> {
  const own = samples.filter((s) => s.workload === side.workload && s.peer === side.peer);
  return new Map(own.map((sample) => [sample.round, sample]));
}
