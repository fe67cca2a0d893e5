import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { StepwellError } from '../../errors.ts';
import { barrierOf } from './barrier.ts';
import { linuxCalls } from './linux.ts';
import { macosCalls } from './macos.ts';
import type { Libc } from './mapping.ts';
import type { Foreign } from './thread-ranges.ts';
import { windowsCalls } from './windows.ts';

export type { Foreign } from './thread-ranges.ts';

/**
 * A CommonJS bundle has `__filename` and an empty `import.meta`. A thread started from source text
 * has both, but its `__filename` is not a path.
 */
const HERE = import.meta.url ?? __filename;

/**
 * The part of koffi that is for this system: all of koffi that is used here. The package koffi
 * would bring it, but also an install script, for which pnpm fails unless it is told otherwise.
 */
const KOFFI = `@koromix/koffi-${process.platform}-${process.arch}`;

/** Raises SW_PERMISSION_DENIED and SW_UNSUPPORTED, which name the pools that need koffi. */
export function loadKoffi(pools = 'shm: and file: pools'): Foreign {
  try {
    return requireKoffi();
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    // Node's own --permission forbids addons unless it is told otherwise.
    if (code === 'ERR_DLOPEN_DISABLED' || code === 'ERR_ACCESS_DENIED') {
      const remedy = 'add --allow-addons, and --allow-fs-read of its files, or use memory:';
      const why = `Node may not load the addon koffi, which ${pools} need: ${remedy}`;
      throw new StepwellError('SW_PERMISSION_DENIED', why, { cause });
    }
    throw new StepwellError(
      'SW_UNSUPPORTED',
      `${pools} need the addon koffi: run npm install ${KOFFI} beside ` +
        `${HERE}, which a bundle cannot contain (${message.split('\n', 1)[0]})`,
      { cause },
    );
  }
}

/** In the package: fills in folders that may have koffi (scripts/bundle.ts). */
declare function koffiFolders(beside: string[], inApplication: string[]): void;

/**
 * A bundler leaves these `require`s alone, because it cannot bundle an addon. A bundle finds it
 * where the bundle stands, where the program does, or beside the package as it was installed. The
 * working directory is not searched: anyone may have put an addon there.
 */
function requireKoffi(): Foreign {
  const errors: unknown[] = [];
  const ways = [
    () => createRequire(HERE)(KOFFI),
    () => createRequire(process.argv[1])(KOFFI),
    () => createRequire(createRequire(HERE).resolve('stepwell/package.json'))(KOFFI),
    () => createRequire(HERE)(folderOfKoffi()),
  ];
  for (const load of ways) {
    try {
      return load();
    } catch (error) {
      errors.push(error);
    }
  }
  throw errors[0];
}

function folderOfKoffi(): string {
  const beside: string[] = [];
  if (typeof koffiFolders === 'function') koffiFolders(beside, []);
  const found = beside.find(
    (folder) => folder.endsWith(KOFFI.slice('@koromix/'.length)) && existsSync(folder),
  );
  if (found === undefined) throw new Error(`no folder has ${KOFFI}`);
  return found;
}

/** Raises SW_UNSUPPORTED where pools cannot be mapped. */
export function loadLibc(): Libc {
  const { platform } = process;
  const calls = { linux: linuxCalls, darwin: macosCalls, win32: windowsCalls }[platform as string];
  if (calls === undefined) {
    const why = `${platform} is none of the systems that can map a pool (Linux, macOS, Windows)`;
    throw new StepwellError('SW_UNSUPPORTED', `${why}; use memory:, or tcp:// and a memory node`);
  }
  // First: where the processor is the reason, the remedy is not another package.
  barrierOf();
  return calls(loadKoffi());
}
