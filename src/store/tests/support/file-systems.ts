import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Scope } from './pools.ts';

/** Why a test is left out that needs a file system of its own. */
export const NO_MOUNTS = 'needs the right to mount';

/** A file system of so many MiB; undefined when this user may not mount one. */
export function smallFileSystem(scope: Scope, mib: number): string | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const directory = mkdtempSync(join(tmpdir(), 'stepwell-test-'));
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${mib}m`, 'tmpfs', directory], {
      stdio: 'ignore',
    });
  } catch {
    rmdirSync(directory);
    return undefined;
  }
  scope.after(() => {
    execFileSync('umount', ['-l', directory]);
    rmdirSync(directory);
  });
  return directory;
}

/** From now on nothing in it can be written. */
export function makeReadOnly(fileSystem: string): void {
  execFileSync('mount', ['-o', 'remount,ro', fileSystem]);
}
