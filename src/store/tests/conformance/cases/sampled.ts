import { test } from 'node:test';

/** The registrar of a suite that takes one test in `share`, from test number `first` on. */
export function sampled(share: number, first: number): typeof test {
  let number = 0;
  const register = (...words: Parameters<typeof test>) =>
    number++ % share === first ? test(...words) : Promise.resolve();
  return register as typeof test;
}
