import { test } from 'node:test';
import { ucxMissing, ucxNodes } from '../../../fabrics/ucx/tests/support/nodes.ts';
import { INDEX_KINDS } from '../../../indexes/kinds.ts';
import type { IndexName } from '../../api.ts';
import { KNOWN_FAILURES } from '../support/known-failures.ts';
import { remoteOpener } from '../support/remote.ts';
import { conformance } from './cases/index.ts';
import { sampled } from './cases/sampled.ts';

/**
 * With `all` every case runs on every index, by tcp on one node and by posix on two; with an index
 * and a transport, such as `chime/tcp`, every case of these alone.
 */
const { STEPWELL_UCX: WHOLE } = process.env;
/**
 * Else each index runs one case in twenty, and each another one: what differs here from memory
 * nodes over TCP is how verbs run, and they are the same for all indexes.
 */
const SHARE = 20;

function isChosen(chosen: string, index: string, transports: string): boolean {
  return chosen === 'all' || chosen === `${index}/${transports}`;
}

/**
 * All nodes lend mapped memory and progress themselves (docs/rdma.md): memory that UCX allocates
 * needs no progress, and could not be taken from a client that was revoked.
 */
const missing = ucxMissing();
if (missing) {
  test('stores over UCX', { skip: missing }, () => {});
} else {
  const starters = { tcp: ucxNodes('tcp'), posix: ucxNodes('posix') };
  for (const [i, { manifest }] of INDEX_KINDS.entries()) {
    const index = manifest.name as IndexName;
    for (const [transports, nodes] of [
      ['tcp', 1],
      ['posix', 2],
    ] as const) {
      if (WHOLE ? !isChosen(WHOLE, index, transports) : (i % 2 === 0) !== (transports === 'posix'))
        continue;
      conformance({
        test: WHOLE ? test : sampled(SHARE, i),
        name: `${index} on ${nodes} ucx: node${nodes === 1 ? '' : 's'} by ${transports}`,
        manifest,
        known: KNOWN_FAILURES,
        bounded: false,
        openAsync: remoteOpener(index, nodes, starters[transports]),
      });
    }
  }
}
