import type { OpenOptions, Size } from './api.ts';
import { invalid, shown } from './arguments.ts';

const POWERS = 'bkmgt';

/**
 * The bytes of a size as people write it: `512m`, `4g`, `4GiB` and `1048576` count in powers of
 * 1024; `4GB` is decimal, as in SI. Raises SW_INVALID_ARGUMENT.
 */
export function parseSize(text: string): number {
  const match = /^(\d+(?:\.\d+)?)\s*(?:([bkmgt])|([kmgt])(i?)b)?$/i.exec(text.trim());
  if (match === null) {
    throw invalid(`'${text}' is not a size; write 512m, 4g, 4GiB or a number of bytes`);
  }
  const power = POWERS.indexOf((match[2] ?? match[3] ?? 'b').toLowerCase());
  const decimal = match[3] !== undefined && match[4] === '';
  const bytes = Number(match[1]) * (decimal ? 1000 : 1024) ** power;
  if (!Number.isSafeInteger(bytes)) throw invalid(`'${text}' is not a whole number of bytes`);
  return bytes;
}

/** The bytes of an option that is a size; numbers are checked where they are used. */
export function bytesOf<S extends Size | undefined>(
  name: string,
  size: S,
): Exclude<S, string> | number {
  if (typeof size !== 'string') return size as Exclude<S, string>;
  try {
    return parseSize(size);
  } catch (cause) {
    throw invalid(`${name}: ${shown(size)} is not a size, such as '512m' or '4g'`, { cause });
  }
}

/** The sizes of a new pool, in bytes. Raises SW_INVALID_ARGUMENT. */
export function poolSizes<O extends Pick<OpenOptions, 'size' | 'regionSize'>>(
  options: O,
): Omit<O, 'size' | 'regionSize'> & { size?: number; regionSize?: number } {
  const { size, regionSize, ...others } = options;
  const sizes: { size?: number; regionSize?: number } = {};
  if (size !== undefined) sizes.size = bytesOf('size', size);
  if (regionSize !== undefined) sizes.regionSize = bytesOf('regionSize', regionSize);
  return { ...others, ...sizes };
}
