import { Prng } from '../../src/random/prng.ts';
import { ZipfRanks } from '../workloads/distributions.ts';
import { Permutation } from '../workloads/permutation.ts';

/** A sequence of requests for keys 0..keys-1. */
export interface Trace {
  readonly name: string;
  readonly keys: number;
  readonly requests: Uint32Array;
}

/** Requests by Zipf's law with the constant of YCSB. */
export function zipf(keys: number, length: number, seed: number): Trace {
  const ranks = new ZipfRanks(keys, Prng.fromSeed(seed));
  const spread = new Permutation(keys, seed);
  const requests = Uint32Array.from({ length }, () => spread.at(ranks.next()));
  return { name: 'zipf-0.99', keys, requests };
}

/** Requests by Zipf's law between two scans, as a multiple of the keys. */
const SCAN_PERIOD = 0.5;
/** Length of a scan, as a share of the keys. */
const SCAN_SHARE = 0.25;

/**
 * Zipf's law over half of the keys. Only scans read the other half; each one starts where the last
 * one ended.
 */
export function scans(keys: number, length: number, seed: number): Trace {
  const hot = Math.floor(keys / 2);
  const ranks = new ZipfRanks(hot, Prng.fromSeed(seed));
  const period = Math.floor(SCAN_PERIOD * keys);
  const scan = Math.floor(SCAN_SHARE * keys);
  let place = 0;
  const requests = Uint32Array.from({ length }, (_, i) => {
    if (i % (period + scan) < period) return ranks.next();
    place = (place + 1) % (keys - hot);
    return hot + place;
  });
  return { name: 'scans', keys, requests };
}

/** Requests between two changes of the hot keys, as a multiple of the keys. */
const SHIFT_PERIOD = 4;

/** Zipf's law with hot keys that change from time to time. */
export function shifting(keys: number, length: number, seed: number): Trace {
  const ranks = new ZipfRanks(keys, Prng.fromSeed(seed));
  const period = SHIFT_PERIOD * keys;
  let spread = new Permutation(keys, seed);
  const requests = Uint32Array.from({ length }, (_, i) => {
    if (i > 0 && i % period === 0) spread = new Permutation(keys, seed + i);
    return spread.at(ranks.next());
  });
  return { name: 'shifting', keys, requests };
}
