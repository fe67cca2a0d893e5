import { readFileSync } from 'node:fs';

/** A mapping of this process, by its addresses and the file that it is of (0: of none). */
export interface MappedRange {
  from: number;
  end: number;
  inode: number;
}

/** Whether any of these mappings stands on huge pages, as far as the system tells. */
export function hasHugePages(isAsked: (range: MappedRange) => boolean): boolean {
  if (process.platform !== 'linux') return false;
  let isOne = false;
  for (const line of readFileSync('/proc/self/smaps', 'utf8').split('\n')) {
    const [, from, end, inode] = /^([0-9a-f]+)-([0-9a-f]+) \S+ \S+ \S+ (\d+)/.exec(line) ?? [];
    if (from !== undefined) {
      const range = { from: Number.parseInt(from, 16), end: Number.parseInt(end, 16) };
      isOne = isAsked({ ...range, inode: Number(inode) });
    } else if (isOne && /^(AnonHugePages|ShmemPmdMapped|FilePmdMapped):\s+[1-9]/.test(line)) {
      return true;
    }
  }
  return false;
}

/** Whether the system gives huge pages to memory that asks for them. */
export function givesHugePages(): boolean {
  try {
    const policy = readFileSync('/sys/kernel/mm/transparent_hugepage/enabled', 'utf8');
    return !policy.includes('[never]');
  } catch {
    // A kernel that was built without them.
    return false;
  }
}
