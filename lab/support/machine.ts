import { existsSync, readFileSync, statfsSync } from 'node:fs';
import { arch, availableParallelism, cpus, loadavg, release, totalmem } from 'node:os';
import { dirname } from 'node:path';

export interface Machine {
  cpu: string;
  cpus: number;
  memoryBytes: number;
  system: string;
  node: string;
  v8: string;
  loadAverage: number;
  /** The kernel's policy for huge pages on shared memory; brackets mark the active setting. */
  sharedHugePages: string;
  date: string;
}

export function describeMachine(): Machine {
  return {
    cpu: cpus()[0]?.model.trim() ?? 'unknown',
    cpus: availableParallelism(),
    memoryBytes: totalmem(),
    system: `${process.platform} ${release()} ${arch()}`,
    node: process.versions.node,
    v8: process.versions.v8,
    loadAverage: loadavg()[0],
    sharedHugePages: readOr('/sys/kernel/mm/transparent_hugepage/shmem_enabled', 'unknown').trim(),
    date: new Date().toISOString(),
  };
}

/** Bytes that can be allocated without swapping. */
function availableMemory(): number {
  const match = /^MemAvailable:\s+(\d+) kB/m.exec(readOr('/proc/meminfo', ''));
  return match === null ? totalmem() / 2 : Number(match[1]) * 1024;
}

/** How large a pool at this URL may be: limited by its file system and by free memory. */
export function roomForPool(url: string): number {
  const file = url.startsWith('file:') ? dirname(url.slice('file:'.length)) : '/dev/shm';
  if (!existsSync(file)) return availableMemory();
  const { bavail, bsize } = statfsSync(file);
  return Math.min(availableMemory(), bavail * bsize);
}

function readOr(path: string, otherwise: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return otherwise;
  }
}
