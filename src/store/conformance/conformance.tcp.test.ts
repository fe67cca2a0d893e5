import { test } from 'node:test';
import { INDEX_KINDS } from '../../indexes/kinds.ts';
import type { IndexName } from '../api.ts';
import { KNOWN_FAILURES } from '../tests/support/known-failures.ts';
import { remoteOpener } from '../tests/support/remote.ts';
import { conformance } from './cases/index.ts';

/**
 * Numbers of nodes. SHARD places its parts by them; for the others one and many differ in the
 * fabric, which RACE shows. HStore's clients poll its servers: on three nodes its cases alone would
 * take two minutes.
 */
const NODES: Record<IndexName, readonly number[]> = {
  race: [1, 3],
  sephash: [3],
  shard: [1, 3],
  chime: [3],
  hstore: [1],
  hopscotch: [1],
};

for (const { manifest } of INDEX_KINDS) {
  for (const nodes of NODES[manifest.name as IndexName]) {
    conformance({
      test,
      name: `${manifest.name} on ${nodes} tcp: node${nodes === 1 ? '' : 's'}`,
      manifest,
      known: KNOWN_FAILURES,
      // Each case takes seconds over a network: one index, and the one whose servers remove.
      bounded: ['race', 'hstore'].includes(manifest.name) && nodes === 1,
      openAsync: remoteOpener(manifest.name as IndexName, nodes),
    });
  }
}
