import assert from 'node:assert/strict';
import { test } from 'node:test';
import { rounds } from '../../../src/random/tests/support/rounds.ts';
import { CHIME_CANARIES } from '../canaries/chime.ts';
import type { Canary } from '../canary.ts';
import type { Call, Write } from '../checks/history.ts';
import type { Scope } from '../exhaustive/scope.ts';
import { type StopOptions, searchStops } from '../exhaustive/stops.ts';
import { assertLinearizable, scopeOf } from '../exhaustive/tests/support/searched.ts';
import { keysAlike } from '../schedules/keys.ts';
import { POLICIES } from '../schedules/policies.ts';
import { commandFor, shrink } from '../schedules/shrink.ts';
import { newSimulationMemory, type RunOptions, runSchedule } from '../schedules/simulation.ts';
import { CHIME_SUBJECT } from '../subjects/chime.ts';
import type { Subject } from '../subjects/subject.ts';
import { LONG_CHIME_SCOPES, testStops } from './support/chime-stops.ts';
import { findFailure } from './support/find-failure.ts';

const SEEDS = rounds(20, 400);
const SHRINK_MS = 10_000;

/** Programs with so many keys that the tree gets several levels of the smallest nodes. */
const DEEP: Subject = {
  ...CHIME_SUBJECT,
  parameters: (prng) => ({
    span: 2 + prng.below(2),
    neighbourhood: 2,
    inlineBytes: 16,
    fanout: 2 + prng.below(2),
    cacheKiB: 1 + prng.below(2),
    seed: prng.next32(),
    accessWords: prng.below(2),
  }),
  placesOfKey: () => 10,
};

/** All searches speculate, and read what proves a miss only then. */
const SPECULATING: Subject = {
  ...DEEP,
  vary(index, prng) {
    DEEP.vary?.(index, prng);
    index.configure?.({ hotspots: 8, readsAtOnce: true });
  },
};

/** A split releases its leaf to claim blocks. */
const WITHOUT_BLOCKS: Subject = { ...CHIME_SUBJECT, stock: undefined };

const SUBJECTS = { CHIME: CHIME_SUBJECT, 'Deep CHIME': DEEP, 'Speculating CHIME': SPECULATING };

/** What a hundred seeds do at least. */
const EXERCISED = { splits: 60, crashes: 15, walks: 45, sweeps: 12, refusals: 3 };

function explain(options: RunOptions): string {
  const report = runSchedule(options);
  const shrunk = shrink(options, report, { milliseconds: SHRINK_MS });
  return `${shrunk.report.failure?.text}\n${shrunk.report.timeline}\n${commandFor(shrunk.options)}`;
}

for (const policy of POLICIES) {
  for (const [name, subject] of Object.entries(SUBJECTS)) {
    test(`${name} is linearizable under ${SEEDS} ${policy} schedules`, () => {
      const memory = newSimulationMemory();
      const done = { splits: 0, crashes: 0, walks: 0, sweeps: 0, refusals: 0 };
      for (let seed = 1; seed <= SEEDS; seed++) {
        const report = runSchedule({ seed, policy, subject }, memory);
        if (report.failure) assert.fail(explain({ seed, policy, subject }));
        for (const row of Object.keys(done) as (keyof typeof done)[]) done[row] += report[row];
      }
      for (const [row, least] of Object.entries(EXERCISED)) {
        const count = done[row as keyof typeof done];
        assert.ok(count >= (least * SEEDS) / 100, `${count} ${row}`);
      }
    });
  }
}

/** The others take longer, or have schedules by the ten thousand: long-scopes.campaign.test.ts. */
test('CHIME is linearizable under every schedule and crash of put-search', () => {
  assertLinearizable(scopeOf(CHIME_SUBJECT, 'put-search'));
});

/** Of scopes that are too long, and the bugs that this bounded search of each must find. */
const STOPPED: Readonly<Record<string, readonly string[]>> = {
  'update-remove-search': ['items are believed without their checksums'],
  'compare-update': ['a picture takes an entry whose checksum fails for empty'],
  'compare-reinsert': ['the intent is written behind the leaf'],
  'put-put-vacate': ['owner and vacancy are released by one WRITE'],
  'split-search': ['no intent is written'],
  'split-late-search': [
    'both sequences of a search are read before its entries',
    'both sequences of a search are read after its entries',
    'no client looks whether a leaf was split',
  ],
  'shrink-search': ['the intent is written behind the leaf'],
  'shrink-late-search': ['the entries of a merged leaf are not cleared'],
  reuse: ['items are believed without their checksums'],
};

for (const [name, bugs] of Object.entries(STOPPED)) {
  if (!LONG_CHIME_SCOPES.includes(name)) testStops(name);
  for (const bug of bugs) {
    test(`the canary is caught in ${name}: ${bug}`, () => {
      const canary = CHIME_CANARIES.find((one) => one.name === `CHIME: ${bug}`);
      assert.ok(canary);
      assert.ok(searchStops(scopeOf(CHIME_SUBJECT, name), { crashes: true, canary }).failure);
    });
  }
}

test('CHIME withstands a stop and a death in a split by a client without blocks', () => {
  const scope = scopeOf(WITHOUT_BLOCKS, 'split-search');
  const { failure, executions, crashed } = searchStops(scope, { crashes: true });
  assert.equal(failure, undefined);
  assert.ok(crashed > 90 && executions > crashed, `${crashed} deaths`);
});

/** Scopes of which only these stops are searched, and the bug that they are made for. */
const DIRECTED: readonly [name: string, options: StopOptions, bug: string][] = [
  // The dead client has not written all of the left leaf. One repairer stops, having met the right
  // leaf; another meets the left one.
  [
    'shrink-update-insert',
    { diesFirst: { from: 13, to: 16 }, only: 1 },
    'the second leaf of a merge is taken over directly',
  ],
  ['shrink-split-search', { only: 0 }, 'a mark is dropped while its pair is merged'],
];

for (const [name, options, bug] of DIRECTED) {
  test(`CHIME withstands a client that stops once in ${name}`, () => {
    const { failure, executions } = searchStops(scopeOf(CHIME_SUBJECT, name), options);
    assert.equal(failure, undefined);
    assert.ok(executions > 15, `${executions} executions`);
  });
  test(`the canary is caught in ${name}: ${bug}`, () => {
    const canary = CHIME_CANARIES.find((one) => one.name === `CHIME: ${bug}`);
    assert.ok(canary);
    const { failure } = searchStops(scopeOf(CHIME_SUBJECT, name), { ...options, canary });
    assert.match(failure ?? '', new RegExp(`^ *${canary.caughtBy}:`, 'm'));
  });
}

const UNFROZEN = 'a node is copied that was not frozen';

/**
 * A node of nine leaves with a record each. Below a node with so many, and not below those of the
 * other scopes, a client merges leaves by the path that it remembers. Keys 10 and 11, which are not
 * stored, are between keys 5 and 6: the first fits the leaf of key 5, the second then splits it.
 */
function broadScope(): Scope {
  const smallest = { ...CHIME_SUBJECT.smallest, fanout: 16 };
  const scope = scopeOf({ ...CHIME_SUBJECT, smallest }, 'shrink-split');
  const keys = keysAlike(10, CHIME_SUBJECT, smallest).sort();
  keys.push(`${keys[5]}a`, `${keys[5]}b`);
  return { ...scope, keys, before: keys.slice(0, 10).map((_, key) => putOf(scope, key)) };
}

/** Like the first put of a scope, with a version of its own. */
function putOf({ before: [call] }: Scope, key: number): Call {
  const version = 1000 * (100 + key);
  return { ...(call as Call & Write), key, value: String(version), version };
}

/**
 * A split has met its leaf's parent when another client removes the left neighbour's last key. That
 * client marks the pair in the parent, merges it, and drops the split leaf from the parent; it
 * stops in between, and the split goes on. The split begins with every number of batches ahead.
 */
function searchLateSplits(fanout: number, canary?: Canary, subject: Subject = CHIME_SUBJECT) {
  const smallest = { ...CHIME_SUBJECT.smallest, fanout };
  const scope = scopeOf({ ...subject, smallest }, 'shrink-split');
  const [removals, [fill, split]] = scope.clients;
  const before = [...scope.before, fill as Call];
  return searchLeads({ ...scope, before, clients: [removals, [split]] }, canary);
}

/** The last client's operation begins with every number of batches ahead; the first one stops. */
function searchLeads(scope: Scope, canary?: Canary) {
  const done = { leads: 0, executions: 0, failure: undefined as string | undefined };
  for (let lead = 1; done.failure === undefined; lead++) {
    try {
      const { executions, failure } = searchStops({ ...scope, lead }, { only: 0, canary });
      done.executions += executions;
      done.failure = failure;
      done.leads = lead;
    } catch (error) {
      if (!String(error).includes('leads beyond its operation')) throw error;
      return done;
    }
  }
  return done;
}

for (const [fanout, subject, least] of [
  [2, CHIME_SUBJECT, 10],
  [3, CHIME_SUBJECT, 10],
  [4, CHIME_SUBJECT, 10],
  [4, WITHOUT_BLOCKS, 20],
] as const) {
  const who = subject === WITHOUT_BLOCKS ? ' by a client without blocks' : '';
  test(`CHIME withstands a merge beside a late split${who}, of ${fanout} children`, () => {
    const { leads, executions, failure } = searchLateSplits(fanout, undefined, subject);
    assert.equal(failure, undefined);
    assert.ok(leads > least && executions > 100, `${leads} leads, ${executions} executions`);
  });
}

test(`the canary is caught in a merge beside a late split: ${UNFROZEN}`, () => {
  const canary = CHIME_CANARIES.find((one) => one.name === `CHIME: ${UNFROZEN}`);
  assert.ok(canary);
  const { failure } = searchLateSplits(4, canary);
  assert.match(failure ?? '', new RegExp(`^ *${canary.caughtBy}:`, 'm'));
});

/**
 * A client removes a leaf's last key, and stops or dies while it merges the leaf with the next one:
 * maybe when the left leaf has its new bounds and the right one is not retired. Another client then
 * empties a third leaf below the same node, finds the mark, and copies the node.
 */
for (const fanout of [3, 4]) {
  test(`CHIME withstands a removal beside an unfinished merge, of ${fanout} children`, () => {
    const smallest = { ...CHIME_SUBJECT.smallest, fanout };
    const scope = scopeOf({ ...CHIME_SUBJECT, smallest }, 'shrink-split');
    const [removal, puts] = scope.clients;
    const before = [...scope.before, ...(puts as Call[])];
    const removals: Call[] = [2, 3].map((key) => ({ key, kind: 'remove' }));
    const beside = { ...scope, before, clients: [removal, removals] };
    const { failure, executions, crashed } = searchStops(beside, { crashes: 'unstopped' });
    assert.equal(failure, undefined);
    assert.ok(crashed > 50 && executions > 300, `${executions} executions, ${crashed} deaths`);
  });
}

/** Merges with the leaf before that of the split, and with the one behind it. */
const BESIDE_SPLIT = [4, 6];

function besideBroadSplit(removed: number): Scope {
  const scope = broadScope();
  const before = [...scope.before, putOf(scope, 10)];
  return { ...scope, before, clients: [[{ key: removed, kind: 'remove' }], [putOf(scope, 11)]] };
}

for (const removed of BESIDE_SPLIT) {
  test(`CHIME withstands a merge by a remembered path beside a late split: ${removed}`, () => {
    const { leads, executions, failure } = searchLeads(besideBroadSplit(removed));
    assert.equal(failure, undefined);
    assert.ok(leads > 10 && executions > 100, `${leads} leads, ${executions} executions`);
  });
  test(`the canary is caught in a merge by a remembered path: ${UNFROZEN}, ${removed}`, () => {
    const canary = CHIME_CANARIES.find((one) => one.name === `CHIME: ${UNFROZEN}`);
    assert.ok(canary);
    const { failure } = searchLeads(besideBroadSplit(removed), canary);
    assert.match(failure ?? '', new RegExp(`^ *${canary.caughtBy}:`, 'm'));
  });
}

test('CHIME withstands two removals that merge by remembered paths, and a put', () => {
  const scope = broadScope();
  const [first, second]: Call[][] = [4, 5].map((key) => [{ key, kind: 'remove' }]);
  const third: Call[] = [{ ...putOf(scope, 5), version: 200_000, value: '200000' } as Call];
  const clients = [first, [...second, { key: 6, kind: 'search' } as Call], third];
  const { failure, executions, crashed } = searchStops(
    { ...scope, clients },
    { crashes: 'unstopped' },
  );
  assert.equal(failure, undefined);
  assert.ok(crashed > 50 && executions > 300, `${executions} executions, ${crashed} deaths`);
});

const CAUGHT_IN_SCOPES = [
  ...Object.values(STOPPED).flat(),
  ...DIRECTED.map(([, , bug]) => bug),
  UNFROZEN,
];

for (const planted of CHIME_CANARIES) {
  if (CAUGHT_IN_SCOPES.includes(planted.name.slice('CHIME: '.length))) continue;
  test(`the canary is caught: ${planted.name}`, () => {
    assert.ok(findFailure(planted, { subject: DEEP }, ['uniform']));
  });
}
