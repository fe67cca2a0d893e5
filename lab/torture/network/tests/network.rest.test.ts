/** Memory nodes, index servers and clients on hosts of their own: killed, stopped and cut off. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ucxMissing } from '../../../../src/fabrics/ucx/tests/support/nodes.ts';
import { rounds } from '../../../../src/random/tests/support/rounds.ts';
import type { IndexName } from '../../../../src/store/api.ts';
import { isInstalled, isMissing } from '../../../../src/store/tests/support/missing-tools.ts';
import { judge, type Kind, StoreCall } from '../calls.ts';
import { Campaign, type CampaignSettings } from '../campaign.ts';
import { type Hosts, makeHosts } from '../hosts.ts';

const SMALL: Omit<CampaignSettings, 'index' | 'seed' | 'say'> = {
  nodes: 2,
  clients: 2,
  faults: 2,
  keys: 16,
  lanes: 3,
  pauseMs: 20,
};

async function onHosts<T>(use: (hosts: Hosts) => Promise<T>): Promise<T> {
  const hosts = makeHosts();
  try {
    return await use(hosts);
  } finally {
    hosts.close();
  }
}

/**
 * Why no host can be cut off here. A tool that is missing is no reason where it must be installed:
 * then the test that this is for fails.
 */
function withoutPartitions(): string | false {
  const hosts = makeHosts();
  try {
    if (!isInstalled('ip')) return isMissing('ip');
    return hosts.uncuttable ?? false;
  } finally {
    hosts.close();
  }
}

/** What was done to hosts in all rounds. */
const inflicted: string[] = [];

const ROUNDS: [IndexName, number, over?: 'ucx'][] = [
  ['chime', 22],
  ['hstore', 100],
  // Whose tables go from node to node meanwhile.
  ['shard', 7],
];
/**
 * In campaigns only: SHARD's writes are RACE's, and these lock and publish as CHIME and RACE do.
 * Nodes over UCX are killed and stopped by ucx-failures.rest.test.ts.
 */
const MORE: typeof ROUNDS = [
  ['race', 11],
  ['race', 12, 'ucx'],
  ['sephash', 21],
  ['hopscotch', 23],
];

for (const [index, seed, over] of [...ROUNDS, ...MORE.slice(0, rounds(0, MORE.length))]) {
  const skip = over === 'ucx' && ucxMissing();
  const name = `${index}${over === undefined ? '' : ` over ${over}`}`;
  test(`${name}: what clients saw through kills, pauses and partitions has an order`, {
    skip,
  }, async (t) => {
    const report = await onHosts((hosts) => {
      // Where no host can be cut off, kills and pauses are tried all the same.
      const say = (line: string) => t.diagnostic(line);
      return Campaign.run(hosts, { ...SMALL, index, seed, ucx: over === 'ucx', say });
    });
    inflicted.push(...report.faults);
    assert.deepEqual(report.wrong, [], `seed ${seed}`);
    assert.equal(report.faults.length, SMALL.faults);
    // Each client gets a dozen answers before and after each fault.
    assert.ok(report.calls >= 12 * (SMALL.faults + 1) * SMALL.clients);
    assert.equal(report.moves !== undefined, index === 'shard');
    assert.ok(report.moves?.completed !== 0, 'no command of the mover ended well');
  });
}

test('hosts were cut off meanwhile', { skip: withoutPartitions() }, () => {
  const cut = inflicted.filter((fault) => /is cut off$|is lost$/.test(fault));
  assert.ok(cut.length > 0, inflicted.join('; '));
});

test('a client that lies is caught', async () => {
  // A fourth of its puts are lies, and most lies are noticed: about ten of them leave no chance.
  const many = { keys: 4, calls: 300, pauseMs: 5, faults: 0 };
  const settings = { ...SMALL, ...many, index: 'race' as const, seed: 13, canary: true };
  const report = await onHosts((hosts) => Campaign.run(hosts, { ...settings, say() {} }));
  assert.ok(report.wrong.length > 0);
});

function called(
  [kind, value]: readonly [Kind, string?],
  [invoked, responded]: readonly [number, number],
  answer?: string | boolean | null,
): StoreCall {
  const call = new StoreCall('client', kind, 'key', value ?? '', invoked);
  call.responded = responded;
  call.answer = answer;
  return call;
}

test('histories that cannot be are found, and others are not', () => {
  const put = called(['set', '5'], [0, 10], true);
  const open = called(['set', '7'], [1, Number.POSITIVE_INFINITY]);
  const good: StoreCall[][] = [
    [put, called(['get'], [11, 12], '5')],
    [put, called(['get'], [5, 6], null)],
    [put, open, called(['get'], [20, 21], '7')],
    [put, open, called(['get'], [20, 21], '5'), called(['get'], [22, 23], '7')],
    [put, called(['increment'], [3, 30], '6'), called(['take'], [31, 32], '6')],
  ];
  const bad: StoreCall[][] = [
    [put, called(['get'], [11, 12], null)],
    [put, open, called(['get'], [20, 21], '7'), called(['get'], [22, 23], '5')],
    [put, called(['insert', '9'], [11, 12], true)],
    [put, called(['take'], [11, 12], '5'), called(['take'], [11, 13], '5')],
    [put, called(['increment'], [11, 12], '6'), called(['increment'], [11, 13], '6')],
    [called(['update', '3'], [1, 2], true)],
    [put, called(['delete'], [11, 12], true), called(['get'], [13, 14], '5')],
  ];
  for (const calls of good) assert.deepEqual(judge(calls), []);
  for (const calls of bad) assert.equal(judge(calls).length, 1);
});
