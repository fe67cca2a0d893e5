import { test } from 'node:test';
import { INDEX_KINDS } from '../../indexes/kinds.ts';
import type { IndexName } from '../api.ts';
import { KNOWN_FAILURES } from '../tests/support/known-failures.ts';
import { remoteOpener } from '../tests/support/remote.ts';
import { conformance } from './cases/index.ts';

/**
 * HStore's clients poll its servers: on three nodes its cases alone would take two minutes. What
 * the hopscotch hash table does on nodes, the tree of the same leaves does on three.
 */
const ON_ONE_NODE = ['hstore', 'hopscotch'];
const nodesFor = (index: string) => (ON_ONE_NODE.includes(index) ? [1] : [1, 3]);

for (const { manifest } of INDEX_KINDS) {
  for (const nodes of nodesFor(manifest.name)) {
    conformance({
      test,
      name: `${manifest.name} on ${nodes} tcp: node${nodes === 1 ? '' : 's'}`,
      manifest,
      known: KNOWN_FAILURES,
      openAsync: remoteOpener(manifest.name as IndexName, nodes),
    });
  }
}
