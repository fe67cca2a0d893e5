import { test } from 'node:test';
import { INDEX_KINDS } from '../../../../indexes/kinds.ts';
import type { IndexName, OpenOptions } from '../../../api.ts';
import { KNOWN_FAILURES } from '../../support/known-failures.ts';
import { remoteOpener } from '../../support/remote.ts';
import { someIndexes } from '../../support/some-indexes.ts';
import { conformance } from './index.ts';
import { sampled } from './sampled.ts';

/** Each case takes seconds over a network: one index, and the one whose servers remove. */
const BOUNDED: readonly IndexName[] = ['race', 'hstore'];

/** In a test run, the others run one case in so many, and each another one. */
const WHOLE = someIndexes('race', 'chime');
const SHARE = 3;

/**
 * How many nodes: SHARD places its parts by them, and the fabric is another one with many. HStore's
 * clients poll its servers: on three nodes its cases alone would take two minutes.
 */
const NODES: Record<IndexName, number> = {
  race: 1,
  sephash: 3,
  shard: 3,
  chime: 3,
  hstore: 1,
  hopscotch: 1,
};

/** The suite over TCP, of the indexes that it tries on so many memory nodes. */
export function conformanceOnNodes(nodes: number, own: Pick<OpenOptions, 'nearCache'> = {}): void {
  const isNear = own.nearCache !== undefined;
  for (const [i, { manifest }] of INDEX_KINDS.entries()) {
    const index = manifest.name as IndexName;
    if (NODES[index] !== nodes || (isNear && !manifest.proves)) continue;
    const opened = remoteOpener(index, nodes);
    conformance({
      test: WHOLE.includes(index) ? test : sampled(SHARE, i % SHARE),
      name: `${index} on ${nodes} tcp: node${nodes === 1 ? '' : 's'}${isNear ? ', near' : ''}`,
      manifest,
      known: KNOWN_FAILURES,
      bounded: BOUNDED.includes(index),
      openAsync: (scope, options, first) => opened(scope, { ...own, ...options }, first),
    });
  }
}
