import { test } from 'node:test';
import { INDEX_KINDS } from '../../../indexes/kinds.ts';
import type { IndexName } from '../../api.ts';
import { KNOWN_FAILURES } from '../support/known-failures.ts';
import { remoteOpener } from '../support/remote.ts';
import { conformance } from './cases/index.ts';

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

for (const { manifest } of INDEX_KINDS) {
  const index = manifest.name as IndexName;
  const nodes = NODES[index];
  conformance({
    test,
    name: `${index} on ${nodes} tcp: node${nodes === 1 ? '' : 's'}`,
    manifest,
    known: KNOWN_FAILURES,
    // Each case takes seconds over a network: one index, and the one whose servers remove.
    bounded: index === 'race' || index === 'hstore',
    openAsync: remoteOpener(index, nodes),
  });
}
