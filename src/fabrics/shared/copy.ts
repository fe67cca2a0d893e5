import type { Scratch } from '../../verbs/index.ts';
import type { Region } from './region.ts';

/** Longer copies go through memcpy; shorter ones are cheaper word by word. */
export const WORD_COPY_BYTES_MAX = 1024;

/** Two views of the same local memory. */
export type LocalViews = Pick<Scratch, 'u8' | 'f64'>;

/** READ: `bytes` (a multiple of 8) from a region into local memory. */
export function readWords(
  region: Region,
  offset: number,
  scratch: LocalViews,
  local: number,
  bytes: number,
) {
  if (bytes > WORD_COPY_BYTES_MAX) {
    scratch.u8.set(region.u8.subarray(offset, offset + bytes), local);
  } else {
    copyWords(region.f64, offset >>> 3, scratch.f64, local >> 3, bytes >> 3);
  }
}

/** WRITE: `bytes` from local memory into a region; short copies go by words if aligned. */
export function writeWords(
  region: Region,
  offset: number,
  scratch: LocalViews,
  local: number,
  bytes: number,
) {
  if (bytes > WORD_COPY_BYTES_MAX) {
    region.u8.set(scratch.u8.subarray(local, local + bytes), offset);
  } else if (((bytes | local | offset) & 7) !== 0) {
    for (let i = 0; i < bytes; i++) region.u8[offset + i] = scratch.u8[local + i];
  } else {
    copyWords(scratch.f64, local >> 3, region.f64, offset >>> 3, bytes >> 3);
  }
}

/** `bytes` (a multiple of 8) between two places of local memory, both aligned. */
export function copyLocal(
  from: LocalViews,
  first: number,
  to: LocalViews,
  into: number,
  bytes: number,
): void {
  if (bytes > WORD_COPY_BYTES_MAX) to.u8.set(from.u8.subarray(first, first + bytes), into);
  else copyWords(from.f64, first >> 3, to.f64, into >> 3, bytes >> 3);
}

/** Copies a cache line a step: unrolled, because a loop costs as much as the copying. */
function copyWords(
  from: Float64Array,
  first: number,
  to: Float64Array,
  into: number,
  count: number,
) {
  let i = 0;
  for (; i + 8 <= count; i += 8) copyLine(from, first + i, to, into + i);
  for (; i < count; i++) to[into + i] = from[first + i];
}

/** Copies 64 bytes, the size of most READs. Both positions are word indexes. */
export function copyLine(
  from: Float64Array,
  source: number,
  to: Float64Array,
  target: number,
): void {
  to[target] = from[source];
  to[target + 1] = from[source + 1];
  to[target + 2] = from[source + 2];
  to[target + 3] = from[source + 3];
  to[target + 4] = from[source + 4];
  to[target + 5] = from[source + 5];
  to[target + 6] = from[source + 6];
  to[target + 7] = from[source + 7];
}
