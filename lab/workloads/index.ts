export { mix32, Prng } from '../../src/random/prng.ts';
export {
  DISTRIBUTION_NAMES,
  type Distribution,
  type DistributionName,
  distribution,
  Latest,
  ScrambledZipf,
  Uniform,
  YCSB_ZIPF,
  ZipfRanks,
  zeta,
} from './distributions.ts';
export { KEY_BYTES, KeyGenerator, ShortKeyGenerator } from './keys.ts';
export { Permutation } from './permutation.ts';
export { VALUE_BYTES, ValueGenerator } from './values.ts';
