import type { Machine } from '../support/machine.ts';
import { figure, grouped, table } from '../support/text.ts';
import type { Outcome } from './campaign.ts';
import { summarize, type Verdict } from './results.ts';
import type { BenchSettings } from './settings.ts';

export function machineLines(machine: Machine): string {
  const { cpu, cpus, memoryBytes, node, system, loadAverage, sharedHugePages } = machine;
  return [
    `${cpus} x ${cpu}, ${figure(memoryBytes / 2 ** 30)} GiB, ${system}, Node ${node}`,
    `load average ${figure(loadAverage)}; huge pages on shared memory: ${sharedHugePages}`,
  ].join('\n');
}

export function settingsLines(settings: BenchSettings): string {
  const { records, rounds, operations, large, peers, url, seed } = settings;
  const part = large === 0 ? 'no large part' : `${grouped(large)} in the large part`;
  return [
    `${grouped(records)} records of 16 + 32 bytes (${part}), pool ${url}, seed ${seed}`,
    `peers ${peers.join(', ')}; ${rounds} rounds of up to ${grouped(operations)} operations`,
  ].join('\n');
}

/** Where the pools are, and whether they have huge pages. */
export function poolLines({ facts }: Outcome): string {
  return ['stepwell', 'large']
    .flatMap((part) => {
      const pool = facts[part]?.pool as { path: string; hugePages: boolean } | undefined;
      if (pool === undefined) return [];
      return [`pool (${part}): ${pool.path}, ${pool.hugePages ? 'huge pages' : 'no huge pages'}`];
    })
    .join('\n');
}

export function resultTable({ samples }: Outcome): string {
  const rows = summarize(samples).map((row) => {
    const { median, minimum, maximum } = row.nanosecondsPerOperation;
    const range = `${figure(minimum)}..${figure(maximum)}`;
    const label = [row.workload, row.peer] as const;
    return [...label, figure(median), range, grouped(row.operationsPerSecond)];
  });
  return table(['workload', 'peer', 'ns/op', 'range of rounds', 'ops/s'], rows, 2);
}

export function verdictTable(verdicts: readonly Verdict[]): string {
  const rows = verdicts.map(({ claim, wanted, ratio, verdict }) => {
    const measured = ratio === undefined ? '-' : `${figure(ratio.median)}x`;
    const range = ratio === undefined ? '-' : `${figure(ratio.minimum)}..${figure(ratio.maximum)}`;
    return [claim, wanted, measured, range, verdict];
  });
  return table(['claim', 'wanted', 'measured', 'range of rounds', 'verdict'], rows);
}

export const NOTES = [
  'ns/op: time of one operation in its process; ops/s: all processes together; medians of rounds.',
  'Each peer runs in processes of its own; peers take turns within a round; round 0 warms up.',
  'Every peer gets the same keys in the same order, made before the clock starts. Keys are the',
  'string objects that were inserted (V8 has their hashes: the best case for Map), except in the',
  'rows with new strings. Each write has a Buffer of its own, which Map keeps and the others copy;',
  'each value read has its first byte used. lmdb is on tmpfs with its defaults (no compression,',
  'noSync off unless --lmdb-no-sync), one transaction per putSync. Ratios are of throughputs',
  'within a round.',
].join('\n');
